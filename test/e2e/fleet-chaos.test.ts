// Chaos with real processes: servers with one Postgres and executors over NATS are killed, frozen and cut off, Postgres and NATS restart, and
// clocks are off by 5 s, while clients make calls. What clients, tools and records say is a history, which is checked against the model of a call.
// GLOVEBOX_CHAOS_CALLS=50000 makes that many calls, with faults as long as they last; by default, there are 150 calls and 7 faults.
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test, vi } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { checkHistory } from "../fleet/chaos/check-history.ts";
import { ChaosClient } from "../fleet/chaos/client.ts";
import { FAULTS, type FaultContext, type FaultName, Links } from "../fleet/chaos/faults.ts";
import type { History, ToolStep } from "../fleet/chaos/history.ts";
import { TestStores } from "../server/support/stores.ts";
import { type Deployment, openDeployment } from "../support/deployment.ts";
import { hasNatsServer } from "../support/nats-server.ts";
import { hasNetworkNamespaces } from "../support/network-namespace.ts";

const CALLS = Number(process.env.GLOVEBOX_CHAOS_CALLS ?? 150);
const CALLS_PER_ROUND = CALLS > 150 ? 500 : 75;
/** Time in ms over which the calls of a round are spread. */
const ROUND_MS = 15_000;
/** By how much the clock of each process is off, in ms. */
const SKEWS = [-5_000, 0, 5_000] as const;
const EXECUTORS = ["one", "two"] as const;
const IDEMPOTENT_EVERY = 3;
const TEST_MS = CALLS > 150 ? 4 * 3_600_000 : 600_000;
const isIdempotent = (n: number): boolean => n % IDEMPOTENT_EVERY === 0;

/** Faults of the first rounds: two sequences at the same time. Later ones are drawn by chance. */
const FIRST_ROUNDS: readonly (readonly [readonly FaultName[], readonly FaultName[]])[] = [
  [["freeze a server"], ["kill an executor", "restart Postgres", "partition an executor"]],
  [["partition a server from Postgres"], ["kill a server", "restart NATS", "freeze an executor"]],
];
const NAMES = Object.keys(FAULTS) as FaultName[];
const drawFaults = (): readonly FaultName[] =>
  Array.from({ length: 2 }, () => NAMES[Math.floor(Math.random() * NAMES.length)] as FaultName);

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

/** Reports each step to the test; the token tells executions of one call apart. */
const toolOf = (origin: string, hint: boolean): string => `
  export const annotations = { idempotentHint: ${hint} };
  export const capabilities = { fetch: true };
  export default async ({ n, ms }, { callId }) => {
    const token = Math.random().toString(36).slice(2, 10);
    const report = (step) => fetch(["${origin}", n, callId, token, step].join("/"));
    await report("begun");
    await new Promise((resolve) => setTimeout(resolve, ms));
    await report("done");
    return { n, run: token };
  }`;

async function readRecords(url: string): Promise<History["records"]> {
  await using database = await openDatabase({ url, dataDir: "", onError() {} });
  const { db } = database;
  const rows = await db.selectFrom("calls").selectAll().execute();
  return rows.map(({ id, input, state, effects, error, output }) => ({
    n: (JSON.parse(input ?? "{}") as { readonly n: number }).n,
    callId: id,
    state,
    effects,
    output: output === null ? null : JSON.stringify(JSON.parse(output)),
    code: error === null ? null : (JSON.parse(error) as { readonly code: string }).code,
  }));
}

async function waitForEnd(url: string): Promise<void> {
  await using database = await openDatabase({ url, dataDir: "", onError() {} });
  const { db } = database;
  await vi.waitFor(
    async () => {
      const open = await db.selectFrom("calls").select("id").where("ended_at", "is", null).limit(5).execute();
      expect(open).toEqual([]);
    },
    { interval: 250 },
  );
}

/** Starts what has ended by itself, as a supervisor does. */
async function revive({ servers, executors }: Deployment): Promise<void> {
  for (const member of [...servers, ...executors])
    if (await Promise.race([member.process.exit.then(() => true), sleep(0, false)])) await member.startAgain();
}

test.skipIf(!hasNatsServer)(
  "every accepted call ends once, and what is said of it is true",
  { timeout: TEST_MS },
  async () => {
    await using links = new Links();
    const steps: ToolStep[] = [];
    const reports = createHttpServer((request, response) => {
      const [, n = "", callId = "", token = "", step = ""] = (request.url ?? "").split("/");
      steps.push({ n: Number(n), callId, token, step: step === "begun" ? "begun" : "done", at: performance.now() });
      response.end("ok");
    });
    await new Promise<void>((resolve) => reports.listen(0, "127.0.0.1", resolve));
    const origin = `http://127.0.0.1:${(reports.address() as AddressInfo).port}`;
    const { database: url = "" } = (await stores.create("postgres")).options;
    const databases: string[] = [];
    for (const index of SKEWS.keys()) {
      const proxied = new URL(url);
      proxied.port = String(await links.toPort(`server-${index} database`, Number(proxied.port)));
      databases.push(proxied.href);
    }
    if (hasNetworkNamespaces) for (const name of EXECUTORS) links.addNamespace(name);
    let processes = 0;
    await using deployment = await openDeployment({
      servers: SKEWS.length,
      executors: EXECUTORS,
      databaseOf: (index) => databases[index] as string,
      config: { limits: { timeoutMs: 120_000, queueMs: 120_000 }, executorSilenceMs: 5_000, maxWorkers: 2 },
      natsOf: async (name, { port }) => `nats://${links.addressOf(name)}:${await links.toPort(name, port)}`,
      wrapperOf: (name) => links.wrapperOf(name),
      nodeFlagsOf: () => {
        const skew = `const now = Date.now; Date.now = () => now() + ${SKEWS[processes++ % SKEWS.length]};`;
        return [`--import=data:text/javascript,${encodeURIComponent(skew)}`];
      },
    });
    const admin = deployment.client();
    const egress = { allow: [{ to: origin, addresses: ["127.0.0.0/8"] }] };
    const limits = { maxConcurrentCalls: 24, maxQueuedCalls: 5_000, timeoutMs: 60_000, queueMs: 60_000 };
    await admin.createTenant({ id: "acme", policy: { egress, limits } });
    for (const hint of [false, true]) {
      const tool = { name: hint ? "again" : "once", source: toolOf(origin, hint), approve: true };
      await admin.tenant("acme").deploy({ ...tool, isolateLifetime: "tool" });
    }

    const client = new ChaosClient(deployment);
    const over = new AbortController();
    const make = async (n: number): Promise<void> => {
      await sleep(Math.random() * ROUND_MS);
      const input = { n, ms: Math.round(Math.random() * 1_000) };
      const tool = isIdempotent(n) ? "again" : "once";
      if (n % 2 === 0) await client.call(n, tool, input);
      else await client.submit(n, tool, input, over.signal);
    };
    const context: FaultContext = { deployment, links, restartPostgres: () => stores.restartPostgres() };
    const applied: FaultName[] = [];
    const apply = async (names: readonly FaultName[]): Promise<void> => {
      for (const name of names) {
        await sleep(Math.random() * 2_000);
        await FAULTS[name](context);
        applied.push(name);
      }
    };
    const pending: Promise<void>[] = [];
    for (let made = 0, round = 0; made < CALLS; round += 1) {
      const calls = Array.from({ length: Math.min(CALLS_PER_ROUND, CALLS - made) }, (_, index) =>
        make(made + index + 1),
      );
      made += calls.length;
      const [first, second] = FIRST_ROUNDS[round] ?? [drawFaults(), drawFaults()];
      await Promise.all([apply(first), apply(second)]);
      await revive(deployment);
      // Not more than two rounds at a time.
      await Promise.all(pending.splice(0));
      pending.push(...calls);
    }
    await Promise.all(pending);
    await waitForEnd(url);
    over.abort();
    // Servers write the last records when they stop.
    for (const { process } of deployment.servers) process.signal("SIGTERM");
    await Promise.all(deployment.servers.map(({ process }) => process.exit));
    const records = await readRecords(url);
    reports.closeAllConnections();
    reports.close();

    const { operations } = client;
    const violations = checkHistory({ operations, steps, records, isIdempotent });
    const succeeded = records.filter(({ state }) => state === "succeeded").length;
    const network = hasNetworkNamespaces ? "network namespaces and proxies" : "proxies";
    console.log(
      `${CALLS} calls, ${operations.length} operations (${client.unanswered} unanswered), ${records.length} records (${succeeded} succeeded), ` +
        `${applied.length} faults (partitions by ${network}): ${violations.length} violations`,
    );
    // One of each kind says more than many of the first.
    const byRule = [...Map.groupBy(violations, ({ rule }) => rule).values()];
    expect(byRule.map(([first, ...others]) => ({ ...first, others: others.length }))).toEqual([]);
    expect(applied.length).toBeGreaterThan(CALLS / CALLS_PER_ROUND);
    // Most calls have nothing to do with a fault.
    expect(succeeded).toBeGreaterThan(CALLS / 2);
  },
);
