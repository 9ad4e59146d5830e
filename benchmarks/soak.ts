// Does anything leak or wear out under mixed load for as long as wanted? node benchmarks/soak.ts [--minutes N] [--pace F] [--kill-every-ms N]
// [--out FILE]. --pace multiplies all pauses, so that a load above 1 leaves cores idle; --kill-every-ms kills a random worker process.
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { commandOf, descendantsOf, type ProcessEntry } from "../test/support/process-tree.ts";
import { surroundings, writeResult } from "./support/measure.ts";
import { judge, type Slope, slopeOf, type Verdict } from "./support/slope.ts";
import { SoakLoad } from "./support/soak-load.ts";
import { FIGURE_NAMES, FIGURES, type Figure, type Reading, Sampler } from "./support/soak-samples.ts";

/** The first of the run is left out: caches fill, processes start. */
const WARMUP_SHARE = 0.2;
const MAX_POINTS = 200;
const GONE_WITHIN_MS = 60_000;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "1" },
    pace: { type: "string", default: "1" },
    "kill-every-ms": { type: "string" },
    out: { type: "string" },
  },
});
const minutes = Number(values.minutes);
if (!(minutes > 0)) throw new Error(`Expected --minutes above 0, got ${values.minutes}`);
const pace = Number(values.pace);
if (!(pace > 0)) throw new Error(`Expected --pace above 0, got ${values.pace}`);
const killEveryMs = values["kill-every-ms"] === undefined ? undefined : Number(values["kill-every-ms"]);
if (killEveryMs !== undefined && !(killEveryMs > 0))
  throw new Error(`Expected --kill-every-ms above 0, got ${values["kill-every-ms"]}`);
const totalMs = minutes * 60_000;
/** Forty samples at least, one in five seconds at most. */
const intervalMs = Math.min(5_000, totalMs / 40);

async function takeReadings(load: SoakLoad): Promise<readonly Reading[]> {
  const sampler = new Sampler(load);
  const readings: Reading[] = [];
  const end = performance.now() + totalMs;
  while (performance.now() < end) {
    await pause(intervalMs);
    readings.push(sampler.read());
  }
  return readings;
}

/** Not every figure has a value in every sample: in a stalled moment no call ends. */
function slopesOf(readings: readonly Reading[]): ReadonlyMap<Figure, { slope: Slope; verdict: Verdict }> {
  const kept = readings.slice(Math.ceil(readings.length * WARMUP_SHARE));
  return new Map(
    FIGURE_NAMES.map((figure) => {
      const samples = kept.map((reading) => ({ hours: reading.hours, value: reading[figure] }));
      const slope = slopeOf(samples.filter(({ value }) => Number.isFinite(value)));
      return [figure, { slope, verdict: judge(slope, FIGURES[figure]) }] as const;
    }),
  );
}

/** Few enough points for a file that is kept, in five digits. */
function thinned(readings: readonly Reading[]): readonly object[] {
  const step = Math.max(1, Math.ceil(readings.length / MAX_POINTS));
  const kept = readings.filter((_, index) => index % step === 0);
  return kept.map((reading) =>
    Object.fromEntries(Object.entries(reading).map(([name, value]) => [name, Number(value.toPrecision(5))])),
  );
}

/** The host's own esbuild, which prepares the sandbox when Glovebox runs from its sources, ends with the host. */
const OWN_SERVICE = /\besbuild --service\b/;
const isOwnService = ({ pid, parent }: ProcessEntry): boolean =>
  parent === process.pid && OWN_SERVICE.test(commandOf(pid));

/** A killed process is gone a moment after its owner has let go of it: on a busy machine, when it gets a core to end on. */
async function remainingProcesses(): Promise<readonly number[]> {
  const until = performance.now() + GONE_WITHIN_MS;
  for (;;) {
    const left = descendantsOf(process.pid).flatMap((entry) => (isOwnService(entry) ? [] : entry.pid));
    if (left.length === 0 || performance.now() > until) return left;
    await pause(100);
  }
}

const load = await SoakLoad.start({ pace, killEveryMs });
const readings = await takeReadings(load);
await load[Symbol.asyncDispose]();
const left = await remainingProcesses();
const slopes = slopesOf(readings);
const { totalCalls, lost, late, doubled, wrong, kills, killedCalls, faults, codes } = load;

console.log(
  `\nsoak: ${totalCalls} calls in ${minutes} min; ${lost} lost, ${late} late, ${doubled} doubled, ${wrong} wrong; ${kills} processes killed, with them ${killedCalls} calls of healthy tools; slopes after the first 20 %:`,
);
console.table(
  Object.fromEntries(
    [...slopes].map(([figure, { slope, verdict }]) => {
      const { mean, perHour, standardError, change } = slope;
      const row = { mean, "slope per hour": perHour, "standard error": standardError, "over the run": change };
      const rounded = Object.entries(row).map(([name, value]) => [name, Number(value.toPrecision(4))]);
      return [figure, { ...Object.fromEntries(rounded), unit: FIGURES[figure].unit, verdict }];
    }),
  ),
);
for (const fault of faults) console.log(`fault: ${fault}`);
if (left.length > 0) {
  console.log(`left behind: ${left.length} processes`);
  for (const pid of left) console.log(`  ${pid} ${commandOf(pid)}`);
}
await writeResult(
  {
    name: "soak",
    question: "Mixed load for a long time: does anything leak, wear out or get lost?",
    ...surroundings(),
    minutes,
    pace,
    kills,
    calls: { total: totalCalls, lost, late, doubled, wrong, killedCalls, faults, codes },
    floors: FIGURES,
    slopes: Object.fromEntries(slopes),
    points: thinned(readings),
  },
  values.out,
);
const isSound = lost === 0 && late === 0 && doubled === 0 && wrong === 0 && left.length === 0;
const drifts = [...slopes.values()].some(({ verdict }) => verdict === "DRIFTS");
if (!isSound || drifts) process.exitCode = 1;
