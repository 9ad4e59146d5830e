// Compares the model with a fleet on this machine: calls arrive at random times at an executor on one core, at several utilisations.
import { execFileSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { CpuMeter, startFleet, untilConnected } from "../support/fleet-processes.ts";
import { nbody, toToolSource } from "../support/jobs.ts";
import { percentile, times } from "../support/measure.ts";
import { createCaller } from "../support/tools.ts";
import type { Check } from "./inputs.ts";
import { createRandom, exponential } from "./random.ts";
import { type Scenario, simulate } from "./simulate.ts";

const UTILISATIONS = [0.3, 0.5, 0.7, 0.85] as const;
/** At which the parameters of the model are measured that are not costs: the time of the way, and how much calls differ. */
const CALIBRATION = 0.1;
const STEPS = 100_000;
const TENANTS = 4;
const SLOTS = 32;
const WINDOW_MS = times(8_000, 600);
const ROUNDS = times(3, 1);
const WARM_UP = times(40, 4);
const SIMULATED_CALLS = 200_000;

interface Window {
  readonly latencies: readonly number[];
  readonly callsPerS: number;
  /** CPU time in ms of one call. */
  readonly executorMs: number;
  readonly controlMs: number;
}

const median = (values: readonly number[]): number =>
  percentile(
    values.toSorted((a, b) => a - b),
    0.5,
  );

/** Moves processes with all their threads to one core. */
function pin(pid: number, core: number): void {
  execFileSync("taskset", ["-a", "-c", "-p", String(core), String(pid)], { stdio: "ignore" });
}

export async function measureChecks(): Promise<readonly Check[]> {
  await using fleet = await startFleet({ default: ["checked"] });
  // The rest of the fleet has the other cores.
  const core = availableParallelism() - 1;
  const executor = await fleet.start({ id: "checked", slots: SLOTS, core });
  if (core > 0) for (const pid of [process.pid, fleet.natsPid]) pin(pid, 0);
  await using host = await fleet.openHost({
    tenants: Object.fromEntries(Array.from({ length: TENANTS }, (_, n) => [`tenant-${n}`, {}])),
    workers: { warmProcesses: 0 },
  });
  await untilConnected(host, 1);
  await host.addTool(
    { name: "compute", source: toToolSource(nbody(STEPS)) },
    { scope: "global", isolateLifetime: "tool" },
  );
  const caller = createCaller(host);
  const call = (tenant: number): Promise<unknown> => caller("compute", { steps: STEPS }, `tenant-${tenant}`);
  for (let n = 0; n < WARM_UP; n += 1) await call(n % TENANTS);

  const control = new CpuMeter(process.pid);
  // The executor is a child of this process.
  const controlMs = (): number => control.readMs() - executor.cpuMs() - fleet.natsCpuMs();
  const run = async (callsPerS: number, seed: number): Promise<Window> => {
    const random = createRandom(seed);
    const latencies: number[] = [];
    const open: Promise<void>[] = [];
    const before = [executor.cpuMs(), controlMs()] as const;
    const began = performance.now();
    for (let at = 0; at < WINDOW_MS; at += exponential(random, 1_000 / callsPerS)) {
      const waitMs = began + at - performance.now();
      if (waitMs > 0.5) await pause(waitMs);
      const due = began + at;
      // From when the call was due: a late timer is the generator's fault, and would hide that the fleet is late.
      open.push(call(Math.floor(random() * TENANTS)).then(() => void latencies.push(performance.now() - due)));
    }
    await Promise.all(open);
    const elapsedMs = performance.now() - began;
    const after = [executor.cpuMs(), controlMs()] as const;
    return {
      latencies: latencies.toSorted((a, b) => a - b),
      callsPerS: (1_000 * open.length) / elapsedMs,
      executorMs: (after[0] - before[0]) / open.length,
      controlMs: (after[1] - before[1]) / open.length,
    };
  };

  // A first guess of the service, for the rates.
  const alone = performance.now();
  for (let n = 0; n < WARM_UP; n += 1) await call(n % TENANTS);
  let serviceMs = (performance.now() - alone) / WARM_UP;
  const windows = new Map<number, Window[]>();
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const utilisation of [CALIBRATION, ...UTILISATIONS]) {
      const one = await run((1_000 * utilisation) / serviceMs, 100 * round + Math.round(100 * utilisation));
      if (utilisation === CALIBRATION) serviceMs = one.executorMs;
      windows.set(utilisation, [...(windows.get(utilisation) ?? []), one]);
    }
  }
  const of = (utilisation: number, figure: (one: Window) => number): number =>
    median((windows.get(utilisation) ?? []).map(figure));
  const quantile = (utilisation: number, share: number): number =>
    of(utilisation, ({ latencies }) => percentile(latencies, share));
  return UTILISATIONS.map((utilisation) => {
    const rate = of(utilisation, ({ callsPerS }) => callsPerS);
    // The costs are those of the same window: a busy core works with colder caches.
    const executorMs = of(utilisation, (one) => one.executorMs);
    const controlMs = of(utilisation, (one) => one.controlMs);
    const calibrated = quantile(CALIBRATION, 0.5) - of(CALIBRATION, (one) => one.executorMs + one.controlMs);
    const scenario: Scenario = {
      seed: 1,
      calls: SIMULATED_CALLS,
      callsPerS: rate,
      tenants: TENANTS,
      zipf: 0,
      executors: 1,
      executor: { cores: 1, slots: SLOTS, processes: 16, idleMs: 60_000 },
      controlPlanes: 1,
      controlMs,
      natsCores: 1,
      natsMs: 0,
      messages: 2,
      wayMs: Math.max(0, calibrated / 2),
      serviceMs: executorMs,
      serviceCv: spreadOf(windows.get(CALIBRATION) ?? []),
      coldMs: 0,
    };
    const model = simulate(scenario);
    return {
      executors: 1,
      utilisation: (rate * executorMs) / 1_000,
      callsPerS: { measured: rate, model: model.callsPerS },
      p50Ms: { measured: quantile(utilisation, 0.5), model: model.p50Ms },
      p99Ms: { measured: quantile(utilisation, 0.99), model: model.p99Ms },
    };
  });
}

/** How much calls differ that do not wait for each other: half of the distance between the 16th and 84th percentile, over the median. */
function spreadOf(windows: readonly Window[]): number {
  return median(
    windows.map(
      ({ latencies }) => (percentile(latencies, 0.84) - percentile(latencies, 0.16)) / (2 * percentile(latencies, 0.5)),
    ),
  );
}
