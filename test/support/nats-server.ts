// Starts a real nats-server with JetStream on a free loopback port, and stops it by its id.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { freePort } from "./free-port.ts";

/** Whether the program is installed. Tests that need it are skipped otherwise, and say so. */
export const hasNatsServer: boolean = (() => {
  try {
    execFileSync("nats-server", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    console.warn("nats-server is not installed: the tests of executors are skipped (apt-get install nats-server)");
    return false;
  }
})();

export interface NatsServer extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** URL of its monitoring endpoints; undefined without `monitors`. */
  readonly monitorUrl: string | undefined;
  /**
   * Ends the process without a warning to its clients, and starts another one on the same port.
   * @param losesFiles whether what it has stored is gone. Default: no
   */
  restart(options?: { readonly losesFiles: boolean }): Promise<void>;
  /** Ends the process. */
  kill(): Promise<void>;
  /** Pauses or resumes it. */
  signal(name: "SIGSTOP" | "SIGCONT"): void;
  /** Reads the file with the users again. */
  reload(): void;
}

export interface NatsServerOptions {
  /** Path of a file with users, as `glovebox executor credentials` writes it. Default: no authentication. */
  readonly users?: string;
  readonly maxPayload?: number;
  /** Whether it serves its monitoring endpoints, on a free port. */
  readonly monitors?: boolean;
  /** Default: a free one. */
  readonly port?: number;
  /** Default: true. */
  readonly jetStream?: boolean;
}

const MONITORS = /Starting http monitor on 127\.0\.0\.1:(\d+)/;
const LISTENS = /Listening for client connections on 127\.0\.0\.1:(\d+)/;

export async function startNatsServer({
  users,
  maxPayload,
  monitors = false,
  port: wanted,
  jetStream = true,
}: NatsServerOptions = {}): Promise<NatsServer> {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-nats-"));
  const config = join(folder, "nats.conf");
  const lines = [
    'host: "127.0.0.1"',
    ...(jetStream
      ? [
          `jetstream { store_dir: ${JSON.stringify(join(folder, "store"))}, max_file_store: 2GB, max_memory_store: 64MB }`,
        ]
      : []),
    ...(maxPayload === undefined ? [] : [`max_payload: ${maxPayload}`]),
    ...(monitors ? ['http: "127.0.0.1:-1"'] : []),
    ...(users === undefined ? [] : ["include users.conf"]),
  ];
  writeFileSync(config, `${lines.join("\n")}\n`);
  // An include is relative to the file that contains it.
  const copyUsers = (): void => {
    if (users !== undefined) copyFileSync(users, join(folder, "users.conf"));
  };
  copyUsers();
  let child: ChildProcess;
  let monitorUrl: string | undefined;
  const start = async (port: number): Promise<number> => {
    child = spawn("nats-server", ["--config", config, "--port", String(port)], { stdio: ["ignore", "ignore", "pipe"] });
    const read = createInterface({ input: child.stderr as NodeJS.ReadableStream });
    const shown: string[] = [];
    return await new Promise<number>((resolve, reject) => {
      read.on("line", (line) => {
        if (shown.length < 100) shown.push(line);
        const [, monitor] = MONITORS.exec(line) ?? [];
        if (monitor !== undefined) monitorUrl = `http://127.0.0.1:${monitor}`;
        const [, found] = LISTENS.exec(line) ?? [];
        // Clients may connect when JetStream is ready too, which the server says last.
        if (found !== undefined) port = Number(found);
        if (line.includes("Server is ready")) resolve(port);
      });
      child.once("error", reject);
      child.once("exit", () => reject(new Error(`nats-server ended:\n${shown.join("\n")}`)));
    });
  };
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  };
  // It may be started again, with the same port.
  const port = await start(wanted ?? (await freePort()));
  return {
    port,
    url: `nats://127.0.0.1:${port}`,
    get pid() {
      return child.pid as number;
    },
    get monitorUrl() {
      return monitorUrl;
    },
    restart: async ({ losesFiles } = { losesFiles: false }) => {
      await kill();
      if (losesFiles) rmSync(join(folder, "store"), { recursive: true, force: true });
      await start(port);
    },
    kill,
    signal: (name) => void child.kill(name),
    reload: () => {
      copyUsers();
      child.kill("SIGHUP");
    },
    [Symbol.asyncDispose]: async () => {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
