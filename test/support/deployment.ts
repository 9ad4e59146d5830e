// Deployments of the server as real processes: servers with SQLite or a Postgres, and executors over NATS. For the tests of a whole fleet.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, type GloveboxClient } from "../../src/client/index.ts";
import { USERS_FILE, writeCredentials } from "../../src/executor/credentials.ts";
import { cliEnvironment, MAIN, NO_WARM_PROCESSES, NodeProcess } from "./cli-process.ts";
import { SHARED_CACHE } from "./host-zone.ts";
import { keepInterpreter, linkBuilds, useKnownInterpreter } from "./interpreter-cache.ts";
import { type NatsServer, startNatsServer } from "./nats-server.ts";

export interface DeploymentOptions {
  /** Number of servers. Several need a database. */
  readonly servers: number;
  /** URL of a Postgres for each server. Default: SQLite. */
  readonly databaseOf?: (index: number) => string;
  /** Ids of executors. Default: calls run in worker processes of the servers. */
  readonly executors?: readonly string[];
  /** URL of NATS for an executor or a server, if not NATS itself. */
  readonly natsOf?: (name: string, nats: NatsServer) => Promise<string>;
  /** Content of the servers' config file. */
  readonly config?: object;
  /** Flags of Node for a server or an executor. */
  readonly nodeFlagsOf?: (name: string) => readonly string[];
  /** The program and the arguments in front of Node, for an executor. */
  readonly wrapperOf?: (executor: string) => readonly string[];
}

/** A server or an executor that can be stopped and started again. */
export class Member implements AsyncDisposable {
  readonly name: string;
  readonly #start: () => NodeProcess;
  readonly #ready: RegExp;
  process: NodeProcess;
  /** Address of a server. Changes with each start. */
  url = "";

  constructor(name: string, start: () => NodeProcess, ready: RegExp) {
    this.name = name;
    this.#start = start;
    this.#ready = ready;
    this.process = start();
  }

  /** Waits until it accepts work. Returns what matches in its output. */
  async ready(): Promise<void> {
    const ended = this.process.exit.then((code) => {
      throw new Error(`${this.name} ended with ${code}: ${this.process.stderr.slice(-2_000)}`);
    });
    const [, shown = ""] = await Promise.race([this.process.says("stdout", this.#ready), ended]);
    ended.catch(() => {});
    this.url = shown;
  }

  /** Starts a process again that has ended. */
  async startAgain(): Promise<void> {
    this.process = this.#start();
    await this.ready();
  }

  /** Ends the process, and starts another one. SIGTERM lets its calls finish. Returns its exit code. */
  async restart(signal: "SIGTERM" | "SIGKILL"): Promise<number | null> {
    this.process.signal(signal);
    const code = await this.process.exit;
    await this.startAgain();
    return code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.process[Symbol.asyncDispose]();
  }
}

export interface Deployment extends AsyncDisposable {
  readonly folder: string;
  readonly servers: readonly Member[];
  readonly executors: readonly Member[];
  readonly nats: NatsServer | undefined;
  readonly adminKey: string;
  /** Returns a client that sends each request to the next server. @param onResponse called with each response */
  client(onResponse?: (method: string, response: Response) => void): GloveboxClient;
  /** Sends a request with the admin key to the next server. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
}

/** The tools that servers of this test file have built. */
const BUILDS = join(SHARED_CACHE.directory, `deployments-${process.pid}`);

/** Starts all processes, and waits until they accept work. */
export async function openDeployment(options: DeploymentOptions): Promise<Deployment> {
  const { servers: count, executors: ids = [], databaseOf, config = {} } = options;
  const folder = mkdtempSync(join(tmpdir(), "glovebox-deployment-"));
  const serverNames = Array.from({ length: count }, (_, index) => `server-${index}`);
  await using opened = new AsyncDisposableStack();
  // Also of processes that start later.
  let resources: AsyncDisposableStack = opened;
  const serverCaches = serverNames.map((name) => join(folder, name, "cache"));
  const caches = [...serverCaches, ...ids.map((id) => join(folder, id, "code"))];
  for (const cache of caches) useKnownInterpreter(cache);
  for (const cache of serverCaches) linkBuilds(BUILDS, cache);
  opened.defer(() => {
    for (const cache of caches) keepInterpreter(cache);
    for (const cache of serverCaches) linkBuilds(cache, BUILDS);
    rmSync(folder, { recursive: true, force: true });
  });
  const credentials = join(folder, "credentials");
  let nats: NatsServer | undefined;
  if (ids.length > 0) {
    await writeCredentials(credentials, ids);
    nats = opened.use(await startNatsServer({ users: join(credentials, USERS_FILE) }));
  }
  const natsUrls = new Map<string, string>();
  for (const name of [...serverNames, ...ids])
    if (nats !== undefined) natsUrls.set(name, (await options.natsOf?.(name, nats)) ?? nats.url);
  const natsFlags = (name: string, flag: string): readonly string[] => {
    const url = natsUrls.get(name);
    if (url === undefined) return [];
    return ["--nats", url, flag, join(credentials, `${ids.includes(name) ? name : "control-plane"}.json`)];
  };
  writeFileSync(join(folder, "master.key"), Buffer.alloc(32, 7).toString("base64"));
  writeFileSync(join(folder, "glovebox.config.js"), `export default ${JSON.stringify(config)}`);
  const env = { ...cliEnvironment(folder), ...NO_WARM_PROCESSES };
  const start = (args: readonly string[], wrapper: readonly string[] = []): NodeProcess =>
    resources.use(new NodeProcess(args, { cwd: folder, env, wrapper }));
  const nodeFlagsOf = options.nodeFlagsOf ?? (() => []);
  const startServer = (name: string, index: number): NodeProcess => {
    const args = ["serve", "--port", "0", "--log-level", "error", "--data-dir", join(folder, name)];
    if (databaseOf !== undefined) args.push("--database", databaseOf(index));
    args.push("--master-key-file", join(folder, "master.key"), ...natsFlags(name, "--nats-credentials"));
    return start([...nodeFlagsOf(name), MAIN, ...args]);
  };
  const startExecutor = (id: string): NodeProcess => {
    const args = ["executor", ...natsFlags(id, "--credentials"), "--max-workers", "2", "--cache-dir", join(folder, id)];
    return start([...nodeFlagsOf(id), MAIN, ...args], options.wrapperOf?.(id));
  };
  const server = (name: string, index: number): Member =>
    new Member(name, () => startServer(name, index), /Listening at (\S+)[\s\S]*API reference/);
  // The first one creates the tables and the admin key.
  const servers = [server(serverNames[0] as string, 0)];
  const [, adminKey = ""] = await (servers[0] as Member).process.says("stdout", /Admin key, shown only now: (\S+)/);
  servers.push(...serverNames.slice(1).map((name, index) => server(name, index + 1)));
  const executors = ids.map((id) => new Member(id, () => startExecutor(id), /is ready/));
  await Promise.all([...servers, ...executors].map((member) => member.ready()));
  resources = opened.move();
  let turn = 0;
  const send = async (path: string, init?: RequestInit): Promise<Response> => {
    const { url } = servers[turn % servers.length] as Member;
    turn += 1;
    return await fetch(`${url}${path}`, init);
  };
  return {
    folder,
    servers,
    executors,
    nats,
    adminKey,
    client: (onResponse) =>
      createClient({
        // Any server: each request goes to the next one.
        url: "http://127.0.0.1",
        key: adminKey,
        retries: 0,
        fetch: async (input, init) => {
          const { pathname, search } = new URL(String(input));
          const response = await send(`${pathname}${search}`, init);
          onResponse?.(init?.method ?? "GET", response);
          return response;
        },
      }),
    fetch: (path, init) => send(path, { ...init, headers: { authorization: `Bearer ${adminKey}`, ...init?.headers } }),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}
