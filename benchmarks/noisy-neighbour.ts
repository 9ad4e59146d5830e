// What do hostile neighbours cost a correct tenant? Its p99 alone, and while eight tenants attack.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { createGlovebox, defineCapability, type Glovebox } from "../src/host/index.ts";
import { measureFairness } from "./support/fairness.ts";
import { HOSTILE_TOOLS } from "./support/hostile-tools.ts";
import { surroundings, writeResult } from "./support/measure.ts";
import { COMPUTING_TOOL, PARTS, type Probe, ProbeTimes, runProbe, SMALL_TOOL } from "./support/probe.ts";

const ROUNDS = 4;
const PHASE_MS = 10_000;
const WARMUP_MS = 2_000;
/** Calls that each hostile tenant keeps in flight. */
const IN_FLIGHT = 12;
/** From one such call of each hostile tenant to the next: all in one tick would be this script's doing, not theirs. */
const APART_MS = 20;
/** Wall time of a hostile call. */
const HOSTILE_MS = 500;
const MAX_RATIO = 3;
const TENANT = "acme";
/** Both together use less than a ninth of two cores: the tenant behaves well, it stays within its share. */
const PROBES: readonly Probe[] = [
  { toolName: "small", tenantId: TENANT, everyMs: 40 },
  { toolName: "computing", tenantId: TENANT, everyMs: 200 },
];
const PHASES = ["alone", "beside"] as const;
type Phase = (typeof PHASES)[number];

/** Measurements of all rounds of one phase. */
class PhaseRecord {
  readonly probes = new Map(PROBES.map(({ toolName }) => [toolName, new ProbeTimes()]));
  lagMaxMs = 0;
  lagP99Ms = 0;
  /** CPU time of the host's process, and processes seen, per second of the phase. */
  readonly hostCpu: number[] = [];
  readonly workerStarts: number[] = [];
  hostileCalls = 0;
}

const ping = defineCapability({ name: "ping", inputSchema: {}, outputSchema: {}, handler: () => null });

async function openGlovebox(): Promise<Glovebox> {
  const glovebox = await createGlovebox({ tenancy: "multi", capabilities: [ping] });
  await glovebox.addTool({ name: "small", source: SMALL_TOOL }, { scope: "global" });
  await glovebox.addTool({ name: "computing", source: COMPUTING_TOOL }, { scope: "global" });
  for (const { name, source, asks } of HOSTILE_TOOLS) {
    await glovebox.addTool({ name, source }, { tenantId: name, ...(asks ? { grant: ["ping"] } : {}) });
  }
  return glovebox;
}

/** One of the calls that a hostile tenant always has in flight, from `afterMs` on. */
async function attack(
  glovebox: Glovebox,
  { name, afterMs }: { readonly name: string; readonly afterMs: number },
  record: PhaseRecord,
  signal: AbortSignal,
): Promise<void> {
  await pause(afterMs);
  while (!signal.aborted) {
    await glovebox.execute({ id: "attack", toolName: name }, { tenantId: name, timeoutMs: HOSTILE_MS, signal });
    record.hostileCalls += 1;
    // A tool that fails at once must not keep this loop from yielding.
    await pause(1);
  }
}

/** Worker processes that were not there before, looked for often enough to see nearly each. */
async function countStarts(glovebox: Glovebox, signal: AbortSignal): Promise<number> {
  const seen = new Set(glovebox.workerPids);
  const before = seen.size;
  while (!signal.aborted) {
    for (const pid of glovebox.workerPids) seen.add(pid);
    await pause(10);
  }
  return seen.size - before;
}

async function runPhase(glovebox: Glovebox, phase: Phase, record: PhaseRecord, ms: number): Promise<void> {
  const lag = monitorEventLoopDelay({ resolution: 2 });
  const over = new AbortController();
  const neighbours =
    phase === "alone"
      ? []
      : HOSTILE_TOOLS.flatMap(({ name }) =>
          Array.from({ length: IN_FLIGHT }, (_, index) =>
            attack(glovebox, { name, afterMs: index * APART_MS }, record, over.signal),
          ),
        );
  const cpuBefore = process.cpuUsage();
  const began = performance.now();
  lag.enable();
  const starts = countStarts(glovebox, over.signal);
  const probes = PROBES.map((probe) =>
    runProbe(glovebox, probe, record.probes.get(probe.toolName) ?? new ProbeTimes(), over.signal),
  );
  await pause(ms);
  over.abort();
  lag.disable();
  const seconds = (performance.now() - began) / 1_000;
  const { user, system } = process.cpuUsage(cpuBefore);
  record.lagMaxMs = Math.max(record.lagMaxMs, lag.max / 1e6);
  record.lagP99Ms = Math.max(record.lagP99Ms, lag.percentile(99) / 1e6);
  record.hostCpu.push((user + system) / 1e6 / seconds);
  record.workerStarts.push((await starts) / seconds);
  await Promise.all([...probes, ...neighbours]);
  // A call that does not stop is killed 200 ms after its end.
  await pause(500);
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

function summarize(record: PhaseRecord): object {
  const probes = [...record.probes].map(([name, times]) => {
    const parts = PARTS.map((part) => [part, { p50Ms: times.at(part, 0.5), p99Ms: times.at(part, 0.99) }]);
    const total = {
      n: times.n,
      p50Ms: times.at("total", 0.5),
      p95Ms: times.at("total", 0.95),
      p99Ms: times.at("total", 0.99),
    };
    return [name, { ...total, failures: times.failures, parts: Object.fromEntries(parts) }];
  });
  const { lagMaxMs, lagP99Ms, hostileCalls } = record;
  const loop = { lagMaxMs, lagP99Ms, hostCpuShare: mean(record.hostCpu) };
  return { probes: Object.fromEntries(probes), loop, workerStartsPerS: mean(record.workerStarts), hostileCalls };
}

function print(records: { readonly [phase in Phase]: PhaseRecord }): void {
  for (const { toolName } of PROBES) {
    const rows = PHASES.map((phase) => {
      const times = records[phase].probes.get(toolName) ?? new ProbeTimes();
      const at = (share: number): string => times.at("total", share).toFixed(2);
      const parts = PARTS.slice(1).map((part) => [`${part} p99`, times.at(part, 0.99).toFixed(1)]);
      const totals = { n: times.n, "p50 ms": at(0.5), "p95 ms": at(0.95), "p99 ms": at(0.99) };
      return [phase, { ...totals, ...Object.fromEntries(parts), failures: JSON.stringify(times.failures) }];
    });
    console.log(`\n${toolName}`);
    console.table(Object.fromEntries(rows));
  }
  for (const phase of PHASES) {
    const { lagMaxMs, lagP99Ms, hostCpu, workerStarts } = records[phase];
    console.log(
      `${phase}: event loop held up ${lagMaxMs.toFixed(0)} ms at most, p99 ${lagP99Ms.toFixed(1)} ms; host ${(mean(hostCpu) * 100).toFixed(0)} % of a core; ${mean(workerStarts).toFixed(1)} worker starts a second`,
    );
  }
}

await using glovebox = await openGlovebox();
const records = { alone: new PhaseRecord(), beside: new PhaseRecord() };
await runPhase(glovebox, "alone", new PhaseRecord(), WARMUP_MS);
for (let round = 0; round < ROUNDS; round += 1) {
  for (const phase of PHASES) await runPhase(glovebox, phase, records[phase], PHASE_MS);
}
print(records);
const p99 = (phase: Phase, name: string): number => records[phase].probes.get(name)?.at("total", 0.99) ?? Number.NaN;
const ratios = PROBES.map(({ toolName }) => [toolName, p99("beside", toolName) / p99("alone", toolName)] as const);
const bars = ratios.map(([name, ratio]) => {
  const verdict = ratio <= MAX_RATIO ? "holds" : "MISSED";
  return `${verdict}: ${name} p99 next to hostile tenants at most ${MAX_RATIO}x its p99 alone: ${ratio.toFixed(1)}x`;
});
for (const line of bars) console.log(line);
const fairness = await measureFairness();
await writeResult({
  name: "noisy-neighbour",
  question: "A tenant that behaves, alone and next to eight hostile ones: its p99, and where the time goes",
  ...surroundings(),
  phases: { alone: summarize(records.alone), beside: summarize(records.beside) },
  p99Ratios: Object.fromEntries(ratios),
  fairness,
  bars,
});
