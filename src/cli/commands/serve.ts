// glovebox serve: runs the server until it is stopped. glovebox config: prints the configuration that it would run with.
import type { ServerConfig } from "../../server/config/server-options.ts";
import { readConfigFile } from "../shared/config-file.ts";
import { type Io, START_STOP_MS } from "../terminal/process-io.ts";
import type { Arguments } from "../usage.ts";

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

/** Returns the flag that sets an option. */
function flagOf(option: string): string | undefined {
  const flag = Object.keys(FLAGS).find((name) => FLAGS[name] === option);
  return flag && `--${flag}`;
}

/** Returns the configuration: defaults, then the config file, then the environment, then flags. */
export async function readConfig(given: Arguments, io: Io): Promise<ServerConfig> {
  const [{ mergeServerOptions }, { ENVIRONMENT_NAMES, readEnvironment }] = await Promise.all([
    import("../../server/config/server-options.ts"),
    import("../../server/config/environment.ts"),
  ]);
  // A config file may start a timer or open a connection, which would keep the process alive.
  io.exitAfterCommand();
  const fileOptions = await readConfigFile(given.values.config as string | undefined, {
    warn: (line) => io.stderr.print(`glovebox: ${line}\n`),
    isStopped: () => io.stop.aborted,
  });
  return mergeServerOptions([
    { options: fileOptions },
    { options: readEnvironment(io.env), nameOf: (option) => `environment.${ENVIRONMENT_NAMES[option]}` },
    { options: readFlags(given), nameOf: flagOf },
  ]);
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
