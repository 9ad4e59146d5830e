// The processes of a fleet on this machine, for the benchmarks: nats-server, executors that may be pinned to a core, and what
// each of them uses.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { USERS_FILE, writeCredentials } from "../../src/executor/credentials.ts";
import { createGlovebox, type Glovebox, type GloveboxOptions } from "../../src/host/index.ts";
import { startNatsServer } from "../../test/support/nats-server.ts";
import { treeOf } from "../../test/support/process-tree.ts";
import { benchmarkPath } from "./tools.ts";

const BUILT = benchmarkPath("../dist/cli/main.js");
/** Whether executors run from the built package. From the sources, the compiler of types counts as their memory. */
export const isBuilt: boolean = existsSync(BUILT);

/** User and system time in /proc/PID/stat count in steps of 10 ms. */
const TICK_MS = 10;
const READY_MS = 60_000;

/** Measures the CPU time of a process and all below it. Processes that have ended count as they were read last. */
export class CpuMeter {
  readonly #root: number;
  readonly #ticks = new Map<number, number>();

  constructor(root: number) {
    this.#root = root;
  }

  /** Returns the CPU time in ms so far. */
  readMs(): number {
    for (const pid of treeOf(this.#root)) {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
        const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
        this.#ticks.set(pid, Number(fields[11]) + Number(fields[12]));
      } catch {
        // It has ended since it was listed.
      }
    }
    let ticks = 0;
    for (const one of this.#ticks.values()) ticks += one;
    return ticks * TICK_MS;
  }
}

export interface FleetExecutor {
  readonly id: string;
  readonly pid: number;
  /** CPU time in ms of the executor and its worker processes. */
  cpuMs(): number;
  stop(): Promise<void>;
}

export interface ExecutorStart {
  readonly id: string;
  readonly pool?: string;
  readonly slots?: number;
  /** Core that it may use. Default: all. */
  readonly core?: number;
  /** Name of the folder of its caches. Default: a new one. */
  readonly home?: string;
}

export interface FleetProcesses extends AsyncDisposable {
  readonly natsPid: number;
  /** CPU time in ms of nats-server. */
  natsCpuMs(): number;
  /** Messages and bytes that nats-server has received and sent so far. */
  natsTraffic(): Promise<NatsTraffic>;
  /** Starts an executor, and waits until it is ready. */
  start(options: ExecutorStart): Promise<FleetExecutor>;
  /** Opens a host whose calls run on the executors. */
  openHost(options?: GloveboxOptions): Promise<Glovebox>;
  /** Options that `glovebox serve` needs to use the executors. */
  readonly serverOptions: { readonly natsUrl: string; readonly natsCredentials: string };
}

export interface NatsTraffic {
  readonly inMessages: number;
  readonly outMessages: number;
  readonly inBytes: number;
  readonly outBytes: number;
}

/** @param executors all executors that will be started, as ids by pool */
export async function startFleet(executors: { readonly [pool: string]: readonly string[] }): Promise<FleetProcesses> {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-fleet-bench-"));
  const credentials = join(folder, "credentials");
  for (const [pool, ids] of Object.entries(executors)) await writeCredentials(credentials, ids, pool);
  const nats = await startNatsServer({ users: join(credentials, USERS_FILE), monitors: true });
  const children: ChildProcess[] = [];
  const natsCredentials = join(credentials, "control-plane.json");
  const stop = async (child: ChildProcess): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await ended;
  };
  const natsMeter = new CpuMeter(nats.pid);
  return {
    natsPid: nats.pid,
    natsCpuMs: () => natsMeter.readMs(),
    serverOptions: { natsUrl: nats.url, natsCredentials },
    natsTraffic: async () => {
      const response = await fetch(`${nats.monitorUrl}/varz`);
      const { in_msgs, out_msgs, in_bytes, out_bytes } = (await response.json()) as { [name: string]: number };
      return {
        inMessages: in_msgs ?? Number.NaN,
        outMessages: out_msgs ?? Number.NaN,
        inBytes: in_bytes ?? Number.NaN,
        outBytes: out_bytes ?? Number.NaN,
      };
    },
    start: async ({ id, pool = "default", slots = 32, core, home: name }) => {
      const home = name === undefined ? mkdtempSync(join(folder, "home-")) : join(folder, name);
      mkdirSync(home, { recursive: true });
      const command = [isBuilt ? BUILT : benchmarkPath("../src/cli/main.ts"), "executor", "--nats", nats.url];
      command.push("--credentials", join(credentials, `${id}.json`), "--pool", pool, "--slots", String(slots));
      const pinned = core === undefined ? [] : ["taskset", "-c", String(core)];
      const [program = "", ...args] = [...pinned, process.execPath, ...command];
      const child = spawn(program, args, {
        env: { ...process.env, HOME: home },
        stdio: ["ignore", "pipe", "inherit"],
      });
      children.push(child);
      await untilReady(child);
      const pid = child.pid as number;
      const meter = new CpuMeter(pid);
      return { id, pid, cpuMs: () => meter.readMs(), stop: () => stop(child) };
    },
    openHost: async (options = {}) =>
      await createGlovebox({
        tenancy: "multi",
        kv: "memory",
        // A busy machine does not reach them.
        limits: { timeoutMs: 60_000, queueMs: 60_000 },
        ...options,
        executors: { url: nats.url, credentials: natsCredentials },
      }),
    [Symbol.asyncDispose]: async () => {
      await Promise.all(children.map(stop));
      await nats[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function untilReady(child: ChildProcess): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  lines.on("line", (line) => {
    if (line.includes("is ready")) resolve();
  });
  child.once("error", reject);
  child.once("exit", (code) => reject(new Error(`An executor ended with ${code} before it was ready`)));
  const timer = setTimeout(() => reject(new Error("An executor was not ready in time")), READY_MS);
  try {
    await promise;
  } finally {
    clearTimeout(timer);
  }
}

/** Waits until a host may send calls to as many executors. */
export async function untilConnected(host: Glovebox, count: number): Promise<void> {
  const until = performance.now() + READY_MS;
  while (host.fleet.executors.length < count) {
    if (performance.now() > until) throw new Error("Executors did not connect in time");
    await pause(50);
  }
}
