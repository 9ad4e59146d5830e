// glovebox executor: runs calls of control planes until it is stopped. glovebox executor credentials: creates the credentials of a fleet.
import { rmSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import type { ExecutorOptions } from "../../executor/index.ts";
import { NatsUrlSchema } from "../../host/fleet/fleet-options.ts";
import { DEFAULT_POOL, POOL_RULE, PoolSchema } from "../../host/fleet/protocol/pool-name.ts";
import { toVisibleLine } from "../../host/util/visible-text.ts";
import { COMMAND_SPECS } from "../options/option-table.ts";
import { quoteValue } from "../options/read-arguments.ts";
import { type Io, START_STOP_MS } from "../terminal/process-io.ts";
import { type Arguments, UsageError } from "../usage.ts";

const DEFAULT_DRAIN_MS = 25_000;
/** How often the file that shows that the process runs is written, in ms. */
const ALIVE_MS = 5_000;
/** Time in ms that closing takes in addition to the drain. */
const CLOSE_MS = 10_000;

const LANGUAGE_NAMES = { javascript: "JavaScript", python: "Python" } as const;
/** The environment variable of each option. Flags come first. */
const ENVIRONMENT: { readonly [flag: string]: string } = {
  nats: "GLOVEBOX_NATS_URL",
  credentials: "GLOVEBOX_NATS_CREDENTIALS",
  "tls-ca": "GLOVEBOX_NATS_TLS_CA",
  pool: "GLOVEBOX_EXECUTOR_POOL",
  slots: "GLOVEBOX_EXECUTOR_SLOTS",
  "max-workers": "GLOVEBOX_MAX_WORKERS",
  "warm-processes": "GLOVEBOX_WARM_PROCESSES",
  "warm-python-processes": "GLOVEBOX_WARM_PYTHON_PROCESSES",
  "cache-dir": "GLOVEBOX_EXECUTOR_CACHE_DIR",
  "drain-ms": "GLOVEBOX_DRAIN_MS",
  "alive-file": "GLOVEBOX_EXECUTOR_ALIVE_FILE",
};

type NumberOption = "slots" | "max-workers" | "warm-processes" | "warm-python-processes" | "drain-ms";

/** Returns the value of an option: the flag's, or the variable's. */
function readValue(name: string, { values }: Arguments, { env }: Io): string | undefined {
  const flag = values[name];
  if (typeof flag === "string") return flag;
  const text = env[ENVIRONMENT[name] ?? ""];
  return text === "" ? undefined : text;
}

/** Returns what an error about the value of an option calls it. */
const nameOf = (name: string, { values }: Arguments): string =>
  values[name] === undefined ? (ENVIRONMENT[name] ?? name) : `--${name}`;

/** Returns the value of an option that is a number. The parser has checked flags, but not variables. */
function readNumber(name: NumberOption, given: Arguments, io: Io): number | undefined {
  const text = readValue(name, given, io);
  if (text === undefined) return undefined;
  const { accepts, expects } = COMMAND_SPECS.executor.options[name];
  if (!accepts(text)) throw new UsageError(`${nameOf(name, given)}: expected ${expects}, got ${quoteValue(text)}`);
  return Number(text);
}

function readPool(given: Arguments, io: Io): string | undefined {
  const pool = readValue("pool", given, io);
  if (pool !== undefined && !PoolSchema.safeParse(pool).success)
    throw new UsageError(
      `${nameOf("pool", given)}: expected the name of a pool: ${POOL_RULE}, got ${quoteValue(pool)}`,
    );
  return pool;
}

/** Returns the URLs of the NATS servers. */
function readUrls(given: Arguments, io: Io): string[] {
  const text = readValue("nats", given, io);
  if (text === undefined) throw new UsageError("--nats: expected the URL of a NATS server, got nothing");
  const urls = text.split(",").map((one) => one.trim());
  if (urls.every((one) => NatsUrlSchema.safeParse(one).success)) return urls;
  // Without the value, which may contain a password.
  throw new UsageError(
    `${nameOf("nats", given)}: expected a URL such as nats://127.0.0.1:4222, or several with commas between them`,
  );
}

function readExecutorOptions(given: Arguments, io: Io): ExecutorOptions {
  return {
    url: readUrls(given, io),
    credentials: readValue("credentials", given, io),
    tlsCa: readValue("tls-ca", given, io),
    pool: readPool(given, io),
    slots: readNumber("slots", given, io),
    cacheDir: readValue("cache-dir", given, io),
    workers: {
      max: readNumber("max-workers", given, io),
      warmProcesses: readNumber("warm-processes", given, io),
      warmPythonProcesses: readNumber("warm-python-processes", given, io),
    },
  };
}

/** Why an executor ends. */
type EndReason = "stopped" | "disconnected" | "requested" | "in-use";

/** Prints why the executor ends, unless the user has stopped it. */
function printReason(reason: EndReason, id: string, io: Io): void {
  if (reason === "requested")
    io.stdout.print("A server has requested that this executor finishes its calls and ends\n");
  else if (reason === "in-use")
    io.stderr.print(
      `glovebox executor: another process is connected as the executor ${id}, so this one ends. Each executor needs credentials of its own: glovebox executor credentials\n`,
    );
  else if (reason === "disconnected") io.stderr.print("glovebox executor: the NATS server has ended the connection\n");
}

/**
 * Exits with 0 after SIGINT, SIGTERM or the request of a control plane, when the running calls have ended. A second signal, or one before it
 * has started, ends it at once.
 */
export async function executorCommand(given: Arguments, io: Io): Promise<number> {
  const [subcommand, folder, ...names] = given.positionals;
  if (subcommand !== undefined) return await credentialsCommand(subcommand, folder, names, given, io);
  const options = readExecutorOptions(given, io);
  const drainMs = readNumber("drain-ms", given, io) ?? DEFAULT_DRAIN_MS;
  io.setStopTimeout(START_STOP_MS);
  const { startExecutor } = await import("../../executor/index.ts");
  const ended = Promise.withResolvers<EndReason>();
  const report = (error: unknown): void => {
    const text = error instanceof Error ? error.message : "unknown error";
    io.stderr.print(`glovebox executor: ${toVisibleLine(text)}\n`);
  };
  const executor = await startExecutor(options, {
    onError: report,
    onEvent: ({ message }) => io.stderr.print(`glovebox executor: ${toVisibleLine(message)}\n`),
    onDisconnected: () => ended.resolve("disconnected"),
    onDrainRequested: () => ended.resolve("requested"),
    onIdInUse: () => ended.resolve("in-use"),
  });
  io.setStopTimeout(drainMs + CLOSE_MS);
  const { id, pool, slots, languages } = executor;
  const all = languages.map((language) => LANGUAGE_NAMES[language]).join(" and ");
  io.stdout.print(`Executor ${id} of the pool ${pool} is ready, with ${slots} slots, for ${all}\n`);
  using _alive = keepAlive(readValue("alive-file", given, io), report);
  if (io.stop.aborted) ended.resolve("stopped");
  io.stop.addEventListener("abort", () => ended.resolve("stopped"), { once: true });
  const first = await ended.promise;
  // After a signal, the end of the connection is expected.
  const reason = first === "disconnected" && io.stop.aborted ? "stopped" : first;
  printReason(reason, id, io);
  const isOrderly = io.stop.aborted || reason === "requested";
  await executor.drain(isOrderly || reason === "in-use" ? drainMs : 0);
  await executor[Symbol.asyncDispose]();
  return isOrderly ? 0 : 1;
}

/**
 * Writes a file now and every few seconds, so that a probe finds out whether the process is frozen. Removes it at the end.
 * @param report called once if it cannot be written
 */
function keepAlive(path: string | undefined, report: (error: unknown) => void): Disposable {
  if (path === undefined) return { [Symbol.dispose]: () => {} };
  let hasFailed = false;
  const write = (): void =>
    void writeFile(path, "").catch(({ code }: NodeJS.ErrnoException) => {
      if (!hasFailed) report(new Error(`The file of --alive-file cannot be written (${code})`));
      hasFailed = true;
    });
  write();
  const timer = setInterval(write, ALIVE_MS);
  return {
    [Symbol.dispose]: () => {
      clearInterval(timer);
      rmSync(path, { force: true });
    },
  };
}

async function credentialsCommand(
  subcommand: string,
  folder: string | undefined,
  names: readonly string[],
  { values }: Arguments,
  io: Io,
): Promise<number> {
  if (subcommand !== "credentials")
    throw new UsageError(`Expected credentials [--pool POOL] FOLDER NAME…, got ${JSON.stringify(subcommand)}`);
  if (folder === undefined) throw new UsageError("Expected credentials [--pool POOL] FOLDER NAME…, got no folder");
  const { pool, ...others } = values;
  const [option] = Object.keys(others);
  if (option !== undefined) throw new UsageError(`--${option} is not an option of executor credentials`);
  const { writeCredentials } = await import("../../executor/credentials.ts");
  const { created, executors } = await writeCredentials(folder, names, typeof pool === "string" ? pool : undefined);
  const listed = executors.map((one) => (one.pool === DEFAULT_POOL ? one.id : `${one.id} (pool ${one.pool})`));
  io.stdout.print(`Wrote ${created.join(", ")}\nExecutors: ${listed.join(", ") || "none"}\n`);
  return 0;
}
