// Does a fleet scale with its cores, what does a call on an executor cost above one in this process, and how much memory does an
// idle executor hold?
import { type ChildProcess, fork } from "node:child_process";
import { availableParallelism, loadavg } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { createGlovebox } from "../src/host/index.ts";
import {
  CpuMeter,
  type FleetExecutor,
  type FleetProcesses,
  isBuilt,
  startFleet,
  untilConnected,
} from "./support/fleet-processes.ts";
import { ADD, nbody, toToolSource } from "./support/jobs.ts";
import { measure, QUICK, report, times } from "./support/measure.ts";
import { aloneMiB, memoryOf, ownMemoryOf } from "./support/memory.ts";
import { IN_PROCESS, ON_EXECUTOR, type Row } from "./support/result.ts";
import { type Caller, createCaller } from "./support/tools.ts";

const SIZES = [1, 2, 4] as const;
const CORES = availableParallelism();
const ROUNDS = times(5, 1);
const WINDOW_MS = times(3_000, 400);
/** Calls in flight for each executor, of as many tenants. */
const CALLERS = 4;
const STEPS = 200_000;
/** Time in ms until the pages that a start has left are given back. */
const SETTLE_MS = times(10_000, 500);
const CALLS = times(300, 10);

const source = { add: toToolSource(ADD), compute: toToolSource(nbody(STEPS)) } as const;
const from = isBuilt ? "the built package" : "the sources, whose types Node strips at each start";
const load = (): string => loadavg()[0]?.toFixed(1) ?? "unknown";

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

/** Runs calls for a while, and returns those that have ended in it per second. */
async function rateOf(callers: number, call: (caller: number) => Promise<unknown>): Promise<number> {
  let count = 0;
  const end = performance.now() + WINDOW_MS;
  const loop = async (caller: number): Promise<void> => {
    while (performance.now() < end) {
      await call(caller);
      if (performance.now() <= end) count += 1;
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, caller) => loop(caller)));
  return count / (WINDOW_MS / 1_000);
}

/** The machine's own scaling: the same work in plain processes that are pinned to the same cores, without any call. */
class PlainProcesses implements Disposable {
  readonly #children: readonly ChildProcess[];

  constructor(count: number) {
    this.#children = Array.from({ length: count }, (_, index) =>
      fork(new URL("support/compute-child.ts", import.meta.url), [String(STEPS)], {
        execPath: "taskset",
        execArgv: ["-c", String(index % CORES), process.execPath],
      }),
    );
  }

  /** Returns the runs per second of the first processes. */
  async rate(count: number): Promise<number> {
    const counts = this.#children.slice(0, count).map(
      (child) =>
        new Promise<number>((resolve) => {
          child.once("message", (message) => resolve(Number(message)));
          child.send(WINDOW_MS);
        }),
    );
    return (await Promise.all(counts)).reduce((sum, one) => sum + one, 0) / (WINDOW_MS / 1_000);
  }

  [Symbol.dispose](): void {
    for (const child of this.#children) child.kill();
  }
}

interface Sample {
  readonly callsPerS: number;
  readonly plainPerS: number;
  readonly executorMs: number;
  readonly controlMs: number;
  readonly natsMs: number;
}

async function measureScaling(fleet: FleetProcesses): Promise<void> {
  const pools = new Map<number, readonly FleetExecutor[]>();
  for (const size of SIZES) {
    const executors: FleetExecutor[] = [];
    for (let index = 0; index < size; index += 1)
      executors.push(
        await fleet.start({ id: `pool-${size}-${index}`, pool: `of-${size}`, slots: CALLERS, core: index % CORES }),
      );
    pools.set(size, executors);
  }
  const tenants = Object.fromEntries(
    SIZES.flatMap((size) =>
      Array.from({ length: CALLERS }, (_, n) => [`of-${size}-${n}`, { pools: [`of-${size}`] }] as const),
    ),
  );
  await using host = await fleet.openHost({ tenants, workers: { warmProcesses: 0 } });
  await untilConnected(
    host,
    SIZES.reduce((sum, size) => sum + size, 0),
  );
  await host.addTool({ name: "compute", source: source.compute }, { scope: "global", isolateLifetime: "tool" });
  using plain = new PlainProcesses(Math.max(...SIZES));
  const everything = new CpuMeter(process.pid);
  const call = createCaller(host);
  const samples = new Map<number, Sample[]>();
  for (let round = -1; round < ROUNDS; round += 1) {
    for (const size of SIZES) {
      const executors = pools.get(size) ?? [];
      const use = (): readonly [executors: number, control: number, nats: number] => {
        const executorMs = executors.reduce((sum, executor) => sum + executor.cpuMs(), 0);
        const others = [...pools.values()].flat().filter((executor) => !executors.includes(executor));
        const otherMs = others.reduce((sum, executor) => sum + executor.cpuMs(), 0);
        const natsMs = fleet.natsCpuMs();
        // All of them are children of this process, which is the control plane.
        return [executorMs, everything.readMs() - executorMs - otherMs - natsMs, natsMs];
      };
      const before = use();
      const callsPerS = await rateOf(CALLERS * size, (caller) =>
        call("compute", { steps: STEPS }, `of-${size}-${caller % CALLERS}`),
      );
      const after = use();
      const plainPerS = await plain.rate(size);
      // The first round loads the tool.
      if (round < 0) continue;
      const calls = callsPerS * (WINDOW_MS / 1_000);
      const [executorMs, controlMs, natsMs] = after.map((ms, index) => (ms - (before[index] ?? 0)) / calls) as [
        number,
        number,
        number,
      ];
      samples.set(size, [...(samples.get(size) ?? []), { callsPerS, plainPerS, executorMs, controlMs, natsMs }]);
    }
  }
  const of = (size: number, field: keyof Sample): number => median((samples.get(size) ?? []).map((one) => one[field]));
  /** Of rounds, because what else runs on the machine changes from round to round. */
  const efficiency = (size: number, field: "callsPerS" | "plainPerS"): number =>
    median(
      (samples.get(size) ?? []).map(
        (one, round) => one[field] / (Math.min(size, CORES) * (samples.get(1)?.[round]?.[field] ?? Number.NaN)),
      ),
    );
  const rows = SIZES.map((size): [string, Row] => [
    `${size} executor${size === 1 ? "" : "s"}`,
    {
      "calls/s": of(size, "callsPerS").toFixed(1),
      "plain processes, runs/s": of(size, "plainPerS").toFixed(1),
      efficiency: efficiency(size, "callsPerS").toFixed(3),
      "efficiency of plain processes": efficiency(size, "plainPerS").toFixed(3),
      "CPU ms per call: executors": of(size, "executorMs").toFixed(1),
      "control plane": of(size, "controlMs").toFixed(2),
      "nats-server": of(size, "natsMs").toFixed(2),
    },
  ]);
  await report({
    name: "fleet-scaling",
    question: "Calls per second of a tool that computes, on 1, 2 and 4 executors that are pinned to cores",
    rows: Object.fromEntries(rows),
    notes: [
      `${CORES} cores. Executor n has core n modulo ${CORES}, ${CALLERS} slots and ${CALLERS} calls in flight, of ${CALLERS} tenants; the tool computes ${STEPS.toLocaleString("en")} steps of nbody in a loaded isolate. Windows of ${WINDOW_MS} ms in turns, medians of ${ROUNDS} rounds. Efficiency: calls per second over those of 1 executor in the same round, over the cores that the executors have.`,
      "The same function also runs in plain processes on the same cores: the limit of the machine with all that ran on it.",
      "The control plane, nats-server and the callers are on the same machine and not pinned. With one executor they use the other core; with two or more, they take their CPU time from the executors, so efficiency can reach at most the executors' share of the CPU time of a call.",
      `Executors run from ${from}. Load of the machine at the end: ${load()}.`,
    ],
  });
}

async function measureDispatch(fleet: FleetProcesses): Promise<void> {
  await fleet.start({ id: "dispatch", pool: "dispatch" });
  await using local = await createGlovebox({ tenancy: "multi", kv: "memory" });
  await using host = await fleet.openHost({
    tenants: { acme: { pools: ["dispatch"] } },
    workers: { warmProcesses: 0 },
  });
  await untilConnected(host, 1);
  const callers: Caller[] = [];
  for (const glovebox of [local, host]) {
    await glovebox.addTool({ name: "add", source: source.add }, { tenantId: "acme", isolateLifetime: "tool" });
    await glovebox.addTool({ name: "fresh", source: source.add }, { tenantId: "acme" });
    callers.push(createCaller(glovebox));
  }
  const [inProcess, onExecutor] = callers as [Caller, Caller];
  const subjects = (tool: string): { [name: string]: () => Promise<unknown> } => ({
    [IN_PROCESS]: () => inProcess(tool, ADD.input),
    [ON_EXECUTOR]: () => onExecutor(tool, ADD.input),
  });
  const notes = [
    "Both hosts are in one process and take turns in blocks of 50 calls. The executor, nats-server and this process share the cores.",
    `The executor runs from ${from}. Load of the machine: ${load()}.`,
  ];
  const common = { samples: 2_000, warmup: 300, block: 50, notes, budgetMs: 30_000 } as const;
  await measure({
    ...common,
    name: "fleet-call-paced",
    question: "A call on an executor, one each 5 ms, against the same call in the control plane's own worker processes",
    paceMs: 5,
    subjects: subjects("add"),
  });
  await measure({
    ...common,
    name: "fleet-call-loop",
    question:
      "A call on an executor, one after another, against the same call in the control plane's own worker processes",
    samples: 4_000,
    subjects: subjects("add"),
  });
  await measure({
    ...common,
    name: "fleet-call-fresh",
    question: "A call on an executor in a new isolate, one each 5 ms, against the same in this process",
    paceMs: 5,
    subjects: subjects("fresh"),
  });
}

const toMemoryRow = (pid: number): Row => {
  const { rssMiB, pssMiB } = memoryOf(pid);
  return {
    "alone MiB": aloneMiB(pid).toFixed(1),
    "Pss MiB": pssMiB.toFixed(1),
    "RSS MiB": rssMiB.toFixed(1),
    "main process, RSS MiB": ownMemoryOf(pid).rssMiB.toFixed(1),
  };
};

async function measureMemory(fleet: FleetProcesses): Promise<void> {
  const options = { id: "memory", pool: "memory", home: "caches" };
  const first = await fleet.start(options);
  await pause(SETTLE_MS);
  const firstRow = toMemoryRow(first.pid);
  await first.stop();
  const executor = await fleet.start(options);
  await using host = await fleet.openHost({ tenants: { acme: { pools: ["memory"] } }, workers: { warmProcesses: 0 } });
  await untilConnected(host, 1);
  await host.addTool({ name: "add", source: source.add }, { tenantId: "acme" });
  const call = createCaller(host);
  await pause(SETTLE_MS);
  const rows: { [name: string]: Row } = { "an idle executor, after its start": toMemoryRow(executor.pid) };
  for (let n = 0; n < CALLS; n += 1) await call("add", ADD.input);
  rows[`after ${CALLS} calls, the tenant's process still there`] = toMemoryRow(executor.pid);
  // The process of a tenant ends after a minute without calls.
  await pause(times(75_000, 500));
  rows["idle again, the tenant's process ended"] = toMemoryRow(executor.pid);
  rows["after its first start on a machine"] = firstRow;
  await report({
    name: "fleet-memory",
    question: "Memory of an idle executor with all its processes",
    rows,
    notes: [
      "An executor is its main process and one warm worker process, with the wrapper that isolates it. Alone: private memory of all of them, and the memory that they share counted once; it is what an executor takes on a machine on which nothing else runs Node.js. Pss divides shared memory by all processes of the machine that share it; RSS counts it once for each.",
      "After the first start on a machine, the warm process makes the code caches of the platform, and keeps what that took until it is used and ends.",
      `The executor runs from ${from}.${QUICK ? " A quick run does not wait until memory is given back." : ""}`,
    ],
  });
}

// With names, those only.
const PARTS = { scaling: measureScaling, dispatch: measureDispatch, memory: measureMemory } as const;
const EXECUTORS: { readonly [pool: string]: readonly string[] } = {
  dispatch: ["dispatch"],
  memory: ["memory"],
  ...Object.fromEntries(
    SIZES.map((size) => [`of-${size}`, Array.from({ length: size }, (_, n) => `pool-${size}-${n}`)]),
  ),
};
const chosen = process.argv.slice(2).filter((word) => word in PARTS);
for (const [name, measurePart] of Object.entries(PARTS)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue;
  // Each part has its own processes, so that those of the other parts do not run at the same time.
  await using fleet = await startFleet(EXECUTORS);
  await measurePart(fleet);
}
