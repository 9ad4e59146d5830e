// Measures what a call costs each part of a fleet: a real server with Postgres, NATS and an executor, each a process of its own.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { createClient } from "../../src/client/index.ts";
import { CpuMeter, isBuilt, startFleet } from "../support/fleet-processes.ts";
import { percentile, times } from "../support/measure.ts";
import { type BenchPostgres, type Statements, startPostgres } from "../support/postgres.ts";
import { benchmarkPath } from "../support/tools.ts";
import type { CallCosts, Inputs } from "./inputs.ts";

/** Calls at the same time. */
const CALLERS = 8;
const CALLS = times(600, 16);
const WARM_UP = times(200, 8);
const IDLE_MS = times(6_000, 500);
/** Calls whose statements are counted one by one, in the log of Postgres. */
const COUNTED = times(200, 8);
/** Fewer than an executor has processes, so that none ends for another. */
const COLD_TENANTS = times(10, 3);
/** The costs are medians of as many rounds. */
const ROUNDS = times(2, 1);
const ASYNC_TIMEOUT_MS = 120_000;
const TENANT = "bench";

const MODES = {
  sync: { tool: "add", headers: {} },
  kv: { tool: "counts", headers: {} },
  async: { tool: "add", headers: { prefer: "respond-async" } },
} as const;
type Mode = keyof typeof MODES;

const TOOLS = {
  add: "export default ({ a = 1, b = 2 }) => a + b",
  counts: `export const capabilities = { kv: true };
    export default async (_, { kv }) => { const n = ((await kv.get("n")) ?? 0) + 1; await kv.set("n", n); return n; }`,
} as const;

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

function post(url: string, key: string, headers: { readonly [name: string]: string }): Promise<void> {
  const body = '{"input":{}}';
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const sent = {
    authorization: `Bearer ${key}`,
    "content-type": "application/json",
    "content-length": body.length,
    ...headers,
  };
  request(url, { method: "POST", agent, headers: sent }, (response) => {
    const { statusCode = 0 } = response;
    response.resume().on("end", () => (statusCode < 300 ? resolve() : reject(new Error(`Status ${statusCode}`))));
  })
    .on("error", reject)
    .end(body);
  return promise;
}

async function inLanes(count: number, run: (n: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) {
      next += 1;
      await run(next);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, lane));
}

interface ServerProcess extends AsyncDisposable {
  readonly url: string;
  readonly key: string;
  readonly pid: number;
}

async function startServer(flags: readonly string[], folder: string): Promise<ServerProcess> {
  const main = benchmarkPath(isBuilt ? "../dist/cli/main.js" : "../src/cli/main.ts");
  const args = [main, "serve", "--port", "0", "--data-dir", join(folder, "data"), "--log-level", "silent", ...flags];
  // A busy machine does not reach it, neither with a call nor while it builds a tool.
  writeFileSync(join(folder, "glovebox.config.js"), "export default { limits: { timeoutMs: 60_000 } };\n");
  const child: ChildProcess = spawn(process.execPath, args, {
    cwd: folder,
    env: { ...process.env, HOME: folder, GLOVEBOX_MASTER_KEY: "00".repeat(32) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const found = Promise.withResolvers<readonly [url: string, key: string]>();
  let key = "";
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
    key = /Admin key, shown only now: (\S+)/.exec(line)?.[1] ?? key;
    const url = /Listening at (\S+)/.exec(line)?.[1];
    if (url !== undefined) found.resolve([url, key]);
  });
  child.once("exit", (code) => found.reject(new Error(`The server ended with ${code}`)));
  const [url] = await found.promise;
  return {
    url,
    key,
    pid: child.pid as number,
    [Symbol.asyncDispose]: async () => {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
    },
  };
}

/** Reads what each part has used so far. */
type Meter = () => Promise<Omit<CallCosts, "reads" | "writes">>;

/** Divides what was used between two readings by the number of calls, less what the parts use without calls. */
async function perCall(
  read: Meter,
  count: number,
  idlePerMs: Omit<CallCosts, "reads" | "writes">,
  run: () => Promise<void>,
): Promise<Omit<CallCosts, "reads" | "writes">> {
  const before = await read();
  const began = performance.now();
  await run();
  const elapsedMs = performance.now() - began;
  const after = await read();
  const names = Object.keys(before) as (keyof typeof before)[];
  return Object.fromEntries(
    names.map((name) => [name, Math.max(0, after[name] - before[name] - elapsedMs * idlePerMs[name]) / count]),
  ) as unknown as typeof before;
}

const NOTHING = {
  controlMs: 0,
  executorMs: 0,
  natsMs: 0,
  postgresMs: 0,
  natsIn: 0,
  natsOut: 0,
  natsBytes: 0,
  commits: 0,
  rows: 0,
  walBytes: 0,
};

export async function measureInputs(): Promise<Inputs> {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-capacity-"));
  try {
    await using postgres = await startPostgres();
    await using fleet = await startFleet({ default: ["machine"] });
    const executor = await fleet.start({ id: "machine" });
    const { natsUrl, natsCredentials } = fleet.serverOptions;
    const flags = ["--database", postgres.url, "--nats", natsUrl, "--nats-credentials", natsCredentials];
    await using server = await startServer(flags, folder);
    const client = createClient({ url: server.url, key: server.key });
    await client.createTenant({ id: TENANT });
    for (const [name, source] of Object.entries(TOOLS))
      await client.tenant(TENANT).deploy({ name, source, approve: true });
    const control = new CpuMeter(server.pid);
    const read: Meter = async () => {
      const { cpuMs: postgresMs, commits, rows, walBytes } = await postgres.counts();
      const { inMessages, outMessages, inBytes, outBytes } = await fleet.natsTraffic();
      return {
        controlMs: control.readMs(),
        executorMs: executor.cpuMs(),
        natsMs: fleet.natsCpuMs(),
        postgresMs,
        commits,
        rows,
        walBytes,
        natsIn: inMessages,
        natsOut: outMessages,
        natsBytes: inBytes + outBytes,
      };
    };
    const call = callerOf(server, postgres);
    for (const mode of Object.keys(MODES) as Mode[]) await call(mode, WARM_UP);
    const idle = await perCall(read, IDLE_MS, NOTHING, async () => void (await pause(IDLE_MS)));
    const began = performance.now();
    const idleStatements = await postgres.statementsOf(async () => void (await pause(IDLE_MS)));
    const idleMs = performance.now() - began;
    const count = async (mode: Mode): Promise<Statements> => {
      const start = performance.now();
      const { reads, writes } = await postgres.statementsOf(() => call(mode, COUNTED));
      const share = (performance.now() - start) / idleMs;
      return {
        reads: Math.max(0, reads - share * idleStatements.reads) / COUNTED,
        writes: Math.max(0, writes - share * idleStatements.writes) / COUNTED,
      };
    };
    const rounds = new Map<Mode, CallCosts[]>();
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const mode of Object.keys(MODES) as Mode[]) {
        const used = await perCall(read, CALLS, idle, () => call(mode, CALLS));
        rounds.set(mode, [...(rounds.get(mode) ?? []), { ...used, ...(await count(mode)) }]);
      }
    }
    const costs = Object.fromEntries(Object.keys(MODES).map((mode) => [mode, medians(rounds.get(mode as Mode) ?? [])]));
    return {
      calls: costs as unknown as Inputs["calls"],
      idle,
      coldMs: await measureCold(server, executor, costs.sync?.executorMs ?? 0),
      isBuilt,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns the median of each cost. */
function medians(rounds: readonly CallCosts[]): CallCosts {
  const names = Object.keys(rounds[0] ?? {}) as (keyof CallCosts)[];
  const median = (name: keyof CallCosts): number =>
    percentile(
      rounds.map((one) => one[name]).toSorted((a, b) => a - b),
      0.5,
    );
  return Object.fromEntries(names.map((name) => [name, median(name)])) as unknown as CallCosts;
}

/** Returns a function that makes calls and waits until all have ended. */
function callerOf(server: ServerProcess, postgres: BenchPostgres): (mode: Mode, count: number) => Promise<void> {
  return async (mode, count) => {
    const { tool, headers } = MODES[mode];
    const url = `${server.url}/v1/tenants/${TENANT}/tools/${tool}/calls`;
    await inLanes(count, () => post(url, server.key, headers));
    if (mode !== "async") return;
    const until = performance.now() + ASYNC_TIMEOUT_MS;
    for (;;) {
      const [row] = await postgres.query("select count(*) as left from calls where ended_at is null");
      if (Number(row?.left) === 0) return;
      if (performance.now() > until) throw new Error("Asynchronous calls did not end in time");
      await pause(100);
    }
  };
}

/** The CPU time on the executor of a tenant's first call, above that of a later one. */
async function measureCold(server: ServerProcess, executor: { cpuMs(): number }, warmMs: number): Promise<number> {
  const client = createClient({ url: server.url, key: server.key });
  for (let n = 0; n < COLD_TENANTS; n += 1) {
    await client.createTenant({ id: `cold-${n}` });
    await client.tenant(`cold-${n}`).deploy({ name: "add", source: TOOLS.add });
  }
  const before = executor.cpuMs();
  for (let n = 0; n < COLD_TENANTS; n += 1)
    await post(`${server.url}/v1/tenants/cold-${n}/tools/add/calls`, server.key, {});
  // The process that replaces the one that was taken starts afterwards.
  await pause(times(5_000, 200));
  return (executor.cpuMs() - before) / COLD_TENANTS - warmMs;
}
