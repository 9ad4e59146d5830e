// Measures subjects against a baseline in one run, taking turns, because the machine is shared and noisy: only ratios travel.
import { writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { availableParallelism, cpus } from "node:os";

/** One thing to be timed: called once for each sample. */
export type Subject = () => Promise<unknown>;

export interface MeasureOptions {
  /** Names the result file. */
  readonly name: string;
  /** The one question that it answers. */
  readonly question: string;
  /** The first is the baseline. */
  readonly subjects: { readonly [name: string]: Subject };
  readonly samples: number;
  readonly warmup: number;
  /** Between two samples, so that idle-time work is not counted against the next; 0 unless given. */
  readonly paceMs?: number;
  /** What the result must not pass. */
  readonly bars?: readonly Bar[];
}

/** A bound on a subject's p50: as a ratio to the baseline's, or in ms. */
export interface Bar {
  readonly subject: string;
  readonly maxRatio?: number;
  readonly maxMs?: number;
}

interface Summary {
  readonly n: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  /** p50 over the baseline's p50. */
  readonly ratio: number;
}

const require = createRequire(import.meta.url);
const versionOf = (name: string): string => (require(`${name}/package.json`) as { readonly version: string }).version;

/** Of times in rising order. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

function summarize(times: readonly number[], baselineP50: number | undefined): Summary {
  const sorted = [...times].sort((a, b) => a - b);
  const p50Ms = percentile(sorted, 0.5);
  return {
    n: sorted.length,
    p50Ms,
    p95Ms: percentile(sorted, 0.95),
    p99Ms: percentile(sorted, 0.99),
    ratio: p50Ms / (baselineP50 ?? p50Ms),
  };
}

async function sample(options: MeasureOptions): Promise<Map<string, number[]>> {
  const times = new Map(Object.keys(options.subjects).map((name) => [name, [] as number[]]));
  for (let round = 0; round < options.warmup + options.samples; round += 1) {
    for (const [name, subject] of Object.entries(options.subjects)) {
      if (options.paceMs !== undefined) await new Promise((resolve) => setTimeout(resolve, options.paceMs));
      const started = performance.now();
      await subject();
      if (round >= options.warmup) times.get(name)?.push(performance.now() - started);
    }
  }
  return times;
}

function checkBar(bar: Bar, summaries: ReadonlyMap<string, Summary>): string {
  const summary = summaries.get(bar.subject);
  const ratioHolds = bar.maxRatio === undefined || (summary?.ratio ?? Number.POSITIVE_INFINITY) <= bar.maxRatio;
  const msHolds = bar.maxMs === undefined || (summary?.p50Ms ?? Number.POSITIVE_INFINITY) <= bar.maxMs;
  const bound = bar.maxRatio === undefined ? `${bar.maxMs} ms` : `${bar.maxRatio}x the baseline`;
  return `${ratioHolds && msHolds ? "holds" : "MISSED"}: ${bar.subject} p50 at most ${bound}`;
}

/** Runs, prints a table, and writes benchmarks/results/NAME.json. */
export async function measure(options: MeasureOptions): Promise<void> {
  const times = await sample(options);
  const summaries = new Map<string, Summary>();
  let baseline: number | undefined;
  for (const [name, subjectTimes] of times) {
    const summary = summarize(subjectTimes, baseline);
    baseline ??= summary.p50Ms;
    summaries.set(name, summary);
  }
  const bars = (options.bars ?? []).map((bar) => checkBar(bar, summaries));
  console.log(`\n${options.name}: ${options.question}`);
  console.table(
    Object.fromEntries(
      [...summaries].map(([name, { n, p50Ms, p95Ms, p99Ms, ratio }]) => [
        name,
        {
          n,
          "p50 ms": p50Ms.toFixed(4),
          "p95 ms": p95Ms.toFixed(4),
          "p99 ms": p99Ms.toFixed(4),
          ratio: ratio.toFixed(3),
        },
      ]),
    ),
  );
  for (const line of bars) console.log(line);
  const { name, question } = options;
  await writeResult({ name, question, ...surroundings(), subjects: Object.fromEntries(summaries), bars });
}

/** What a figure was taken on; it means nothing without. */
export function surroundings(): { readonly versions: object; readonly machine: object } {
  return {
    versions: { node: process.versions.node, v8: process.versions.v8, "isolated-vm": versionOf("isolated-vm") },
    machine: { cores: availableParallelism(), cpu: cpus()[0]?.model ?? "unknown" },
  };
}

/** Writes benchmarks/results/NAME.json, or the file given. */
export async function writeResult(
  result: { readonly name: string; readonly [field: string]: unknown },
  path?: string,
): Promise<void> {
  const file = path ?? new URL(`../results/${result.name}.json`, import.meta.url);
  await writeFile(file, `${JSON.stringify(result, null, 2)}\n`);
}
