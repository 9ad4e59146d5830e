// glovebox fleet: shows the executors, their pools and the replicas of a server, and requests that an executor drains.
import type { Fleet, GloveboxClient } from "../../client/index.ts";
import { connect, withServerErrors } from "../remote/connection.ts";
import { isJsonWanted, printItems, timeOf } from "../remote/table.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, UsageError } from "../usage.ts";

const USAGE = "fleet: expected list or drain ID";

type Executor = Fleet["executors"][number];

const EXECUTOR_COLUMNS: { readonly [name: string]: (item: Executor) => unknown } = {
  executor: ({ id }) => id,
  pool: ({ pool }) => pool,
  state: ({ state }) => state,
  version: ({ version }) => version,
  languages: ({ languages }) => languages.join(", "),
  busy: ({ busy, slots }) => `${busy} of ${slots}`,
  started: ({ startedAt }) => timeOf(startedAt),
  "last seen": ({ seenAt }) => timeOf(seenAt),
};

async function list(given: Arguments, io: Io, client: GloveboxClient): Promise<void> {
  const fleet = await client.fleet();
  if (isJsonWanted(given)) {
    io.stdout.print(`${JSON.stringify(fleet, null, 2)}\n`);
    return;
  }
  const { executors, pools, replicas, usesExecutors } = fleet;
  if (executors.length > 0) printItems(given, io, executors, EXECUTOR_COLUMNS);
  else if (usesExecutors)
    io.stdout.print("No executor is connected. Start one: npx glovebox executor --nats URL --credentials FILE\n");
  else io.stdout.print("Calls run on the server's own machine. For executors: npx glovebox serve --nats URL\n");
  if (pools.length > 0) {
    io.stdout.print("\n");
    printItems(given, io, pools, {
      pool: ({ pool }) => pool,
      executors: ({ executors: count, draining }) => (draining === 0 ? count : `${count}, ${draining} draining`),
      busy: ({ busy, slots }) => `${busy} of ${slots}`,
      queued: ({ queued }) => queued,
      oldest: ({ queued, oldestMs }) => (queued === 0 ? "" : `${oldestMs} ms`),
    });
  }
  io.stdout.print("\n");
  printItems(given, io, replicas, {
    replica: ({ id }) => id,
    state: ({ state }) => state,
    version: ({ version }) => version,
    started: ({ startedAt }) => timeOf(startedAt),
    "last seen": ({ seenAt }) => timeOf(seenAt),
  });
}

export async function fleetCommand(given: Arguments, io: Io): Promise<number> {
  const [action = "list", id] = given.positionals;
  if (action === "list" ? id !== undefined : action !== "drain" || id === undefined) throw new UsageError(USAGE);
  return await withServerErrors(async () => {
    const client = connect(io);
    if (id === undefined) {
      await list(given, io, client);
      return 0;
    }
    const executor = await client.drainExecutor(id);
    if (isJsonWanted(given)) io.stdout.print(`${JSON.stringify(executor, null, 2)}\n`);
    else printItems(given, io, [executor], EXECUTOR_COLUMNS);
    return 0;
  });
}
