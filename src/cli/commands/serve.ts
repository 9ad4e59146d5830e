// glovebox serve: runs the server until it is stopped. glovebox config: prints the configuration that it would run with.
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { ServerConfig } from "../../server/config/server-options.ts";
import { type Io, START_STOP_MS } from "../terminal/process-io.ts";
import { type Arguments, UsageError } from "../usage.ts";

/** Names of the config file in the working directory, by preference. */
const CONFIG_FILES = ["glovebox.config.ts", "glovebox.config.js"] as const;
/** Time in ms that closing takes in addition to the drain. */
const CLOSE_MS = 10_000;

/** The option of the server for each flag. */
const FLAGS: { readonly [flag: string]: keyof ServerConfig } = {
  host: "host",
  port: "port",
  "allow-host": "allowHosts",
  "replica-url": "replicaUrl",
  database: "database",
  "data-dir": "dataDir",
  "master-key-file": "masterKeyFile",
  "log-level": "logLevel",
  nats: "natsUrl",
  "nats-credentials": "natsCredentials",
  "nats-tls-ca": "natsTlsCa",
};

function readFlags({ values }: Arguments): { readonly [option: string]: unknown } {
  const given = Object.entries(FLAGS).filter(([flag]) => values[flag] !== undefined);
  return Object.fromEntries(
    given.map(([flag, option]) => [option, flag === "port" ? Number(values[flag]) : values[flag]]),
  );
}

/** Returns the default export of the config file; no options if there is no file. */
async function readConfigFile({ values }: Arguments): Promise<object> {
  const named = values.config as string | undefined;
  const found = CONFIG_FILES.map((name) => join(process.cwd(), name)).find((path) => existsSync(path));
  const path = named === undefined ? found : resolve(named);
  if (path === undefined) return {};
  if (!existsSync(path)) throw new UsageError(`--config: ${named} does not exist`);
  let loaded: { readonly default?: unknown };
  try {
    loaded = (await import(pathToFileURL(path).href)) as typeof loaded;
  } catch (thrown) {
    throw new UsageError(
      `The config file cannot be loaded: ${Error.isError(thrown) ? thrown.message : String(thrown)}`,
    );
  }
  if (typeof loaded.default === "object" && loaded.default !== null) return loaded.default;
  throw new UsageError("The config file must export its options: export default { port: 7070 }");
}

/** Returns the configuration: defaults, then the config file, then the environment, then flags. */
export async function readConfig(given: Arguments, io: Io): Promise<ServerConfig> {
  const [{ parseServerOptions }, { readEnvironment }] = await Promise.all([
    import("../../server/config/server-options.ts"),
    import("../../server/config/environment.ts"),
  ]);
  return parseServerOptions(await readConfigFile(given), readEnvironment(io.env), readFlags(given));
}

/** Exits with 0 after SIGINT or SIGTERM, when the running calls have ended. A second signal, or one before it has started, ends it at once. */
export async function serveCommand(given: Arguments, io: Io): Promise<number> {
  const config = await readConfig(given, io);
  io.setStopTimeout(START_STOP_MS);
  const [{ createServer }, { isReachedByAddress }, { useFastResponses }] = await Promise.all([
    import("../../server/index.ts"),
    import("../../server/config/server-options.ts"),
    import("../../server/http/fast-responses.ts"),
  ]);
  useFastResponses();
  const server = await createServer(config);
  io.setStopTimeout(config.stopDelayMs + config.drainMs + CLOSE_MS);
  if (server.adminKey !== undefined) {
    io.stdout.print(`Admin key, shown only now: ${server.adminKey}\n`);
  }
  io.stdout.print(
    `Listening at ${server.url}\nConsole at ${server.url}/console\nAPI reference at ${server.url}/reference\n`,
  );
  if (isReachedByAddress(config)) {
    io.stdout.print(
      "Clients reach it by IP address and as localhost. Allow names with --allow-host NAME or GLOVEBOX_ALLOW_HOSTS\n",
    );
  }
  if (!io.stop.aborted) {
    await new Promise<void>((stopped) => io.stop.addEventListener("abort", () => stopped(), { once: true }));
  }
  await server.close();
  return 0;
}

/** Prints the effective configuration as JSON, without secrets. */
export async function configCommand(given: Arguments, io: Io): Promise<number> {
  const { toShownConfig } = await import("../../server/config/shown-config.ts");
  io.stdout.print(`${JSON.stringify(toShownConfig(await readConfig(given, io)), null, 2)}\n`);
  return 0;
}
