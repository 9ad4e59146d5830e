// Measures subjects against a baseline in one run, taking turns, because the machine is shared and noisy: only ratios travel.
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { availableParallelism, cpus } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { BARS, judgeBar, toLine } from "./bars.ts";
import type { LeftOut, Result, Row, Summary } from "./result.ts";

/** One operation to measure, called once for each sample. */
export type Subject = () => Promise<unknown>;

/** A subject with a pace of its own. */
export interface PacedSubject {
  readonly run: Subject;
  /** From one call's start to the next; a call that takes longer delays the next one. */
  readonly paceMs: number;
}

export interface MeasureOptions {
  /** Names the result file. */
  readonly name: string;
  /** The one question that it answers. */
  readonly question: string;
  /** The first is the baseline. */
  readonly subjects: { readonly [name: string]: Subject | PacedSubject };
  readonly samples: number;
  readonly warmup: number;
  /** For subjects that state none: with 0, which is the default, one call follows another at once. */
  readonly paceMs?: number;
  /** Calls of one subject in a row before it is the next one's turn; 1 unless given. A pace means little without. */
  readonly block?: number;
  /** Time in ms that one subject may take in all. A slow subject has fewer samples, which its n shows. Default: 20 s. */
  readonly budgetMs?: number;
  /** Further notes for the reader of the page. */
  readonly notes?: readonly string[];
  /** Peers that could not be asked, and why. */
  readonly leftOut?: readonly LeftOut[];
}

/** `npm run bench -- --quick` only checks that each benchmark works. Its figures are meaningless. */
export const QUICK: boolean = process.argv.includes("--quick");

/** Returns the given count, or a small one in a quick run. */
export const times = <T = number>(full: T, quick: T): T => (QUICK ? quick : full);

/** Lowest number of calls of a subject, even if it exceeds its time. */
const MIN_SAMPLES = 10;
const BUDGET_MS = 20_000;

const require = createRequire(import.meta.url);
const versionOf = (name: string): string => (require(`${name}/package.json`) as { readonly version: string }).version;

/** Returns a percentile of times that are in ascending order. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function summarize(taken: readonly number[], baselineP50?: number): Summary {
  const sorted = [...taken].sort((a, b) => a - b);
  const p50Ms = percentile(sorted, 0.5);
  return {
    n: sorted.length,
    p50Ms,
    p95Ms: percentile(sorted, 0.95),
    p99Ms: percentile(sorted, 0.99),
    ratio: p50Ms / (baselineP50 ?? p50Ms),
  };
}

/** Times of one subject, while they are taken. */
class Recorder {
  readonly times: number[] = [];
  readonly #run: Subject;
  readonly #paceMs: number;
  readonly #budgetMs: number;
  readonly #minSamples: number;
  #warmup: number;
  #left: number;
  #spentMs = 0;
  /** The reason why a peer is no longer measured. */
  failure: unknown;

  constructor(subject: Subject | PacedSubject, options: MeasureOptions) {
    this.#run = typeof subject === "function" ? subject : subject.run;
    this.#paceMs = typeof subject === "function" ? (options.paceMs ?? 0) : subject.paceMs;
    this.#budgetMs = QUICK ? 300 : (options.budgetMs ?? BUDGET_MS);
    this.#minSamples = QUICK ? 1 : MIN_SAMPLES;
    this.#warmup = QUICK ? 1 : options.warmup;
    this.#left = QUICK ? Math.min(20, options.samples) : options.samples;
  }

  get isDone(): boolean {
    return (
      this.failure !== undefined ||
      this.#left === 0 ||
      (this.#spentMs > this.#budgetMs && this.times.length >= this.#minSamples)
    );
  }

  async takeTurn(calls: number): Promise<void> {
    for (let n = 0; n < calls && !this.isDone; n += 1) {
      const started = performance.now();
      await this.#run();
      const ms = performance.now() - started;
      this.#spentMs += ms;
      // A subject that is slow has not the time to be warmed up as often as a quick one.
      if (this.#warmup > 0 && this.#spentMs < this.#budgetMs / 4) this.#warmup -= 1;
      else {
        this.times.push(ms);
        this.#left -= 1;
      }
      // Timers count whole milliseconds, and drop what is over.
      if (this.#paceMs > 0) await pause(Math.max(0, Math.ceil(this.#paceMs - (performance.now() - started))));
    }
  }
}

/** Varies the order, so that garbage and ending threads of one subject do not always affect the same other one. */
function shuffled<Item>(items: readonly Item[]): readonly Item[] {
  const keyed = items.map((item) => ({ item, key: Math.random() }));
  return keyed.sort((a, b) => a.key - b.key).map(({ item }) => item);
}

/** Ours and the raw baseline must not fail; a peer may, and is left out of the rest. */
const isPeer = (name: string): boolean => !/^(?:raw|Glovebox)/.test(name);

interface Sample {
  /** In ms, by subject. */
  readonly taken: ReadonlyMap<string, readonly number[]>;
  readonly leftOut: readonly LeftOut[];
}

async function sample(options: MeasureOptions): Promise<Sample> {
  const recorders = new Map(
    Object.entries(options.subjects).map(([name, subject]) => [name, new Recorder(subject, options)] as const),
  );
  const all = [...recorders];
  while (!all.every(([, { isDone }]) => isDone)) {
    for (const [name, recorder] of shuffled(all)) {
      await recorder.takeTurn(options.block ?? 1).catch((error: unknown) => {
        if (!isPeer(name)) throw error;
        recorder.failure = error;
      });
    }
  }
  const failed = all.filter(([, { failure }]) => failure !== undefined);
  const leftOut = failed.map(
    ([
      name,
      {
        failure,
        times: { length },
      },
    ]) => {
      const cause = Error.isError(failure) && Error.isError(failure.cause) ? failure.cause : failure;
      return { name, reason: `It failed after ${length} calls: ${String(cause).slice(0, 200)}` };
    },
  );
  const whole = all.filter(([, { failure }]) => failure === undefined);
  return { taken: new Map(whole.map(([name, recorder]) => [name, recorder.times])), leftOut };
}

/** Runs, prints a table, and writes benchmarks/results/NAME.json. */
export async function measure(options: MeasureOptions): Promise<void> {
  const { taken, leftOut } = await sample(options);
  await reportLatencies({ ...options, taken, leftOut: [...(options.leftOut ?? []), ...leftOut] });
}

export interface Latencies extends Pick<MeasureOptions, "name" | "question" | "notes" | "leftOut"> {
  /** In ms, by subject; the first is the baseline. */
  readonly taken: ReadonlyMap<string, readonly number[]>;
}

/** Summarizes times as `measure` does, for a benchmark that measures them in its own way. */
export async function reportLatencies({ name, question, taken, notes = [], leftOut = [] }: Latencies): Promise<void> {
  const summaries = new Map<string, Summary>();
  let baseline: number | undefined;
  for (const [subject, ms] of taken) {
    const summary = summarize(ms, baseline);
    baseline ??= summary.p50Ms;
    summaries.set(subject, summary);
  }
  console.log(`\n${name}: ${question}`);
  console.table(Object.fromEntries([...summaries].map(([subject, summary]) => [subject, toColumns(summary)])));
  await writeResult({ name, question, ...surroundings(), subjects: Object.fromEntries(summaries), notes, leftOut });
}

/** A summary as it is printed. */
export function toColumns({ n, p50Ms, p95Ms, p99Ms, ratio }: Summary): Row {
  const toMs = (ms: number): string => ms.toFixed(ms < 1 ? 3 : 2);
  return { n, "p50 ms": toMs(p50Ms), "p95 ms": toMs(p95Ms), "p99 ms": toMs(p99Ms), ratio: ratio.toFixed(3) };
}

/** For a benchmark that measures something else than latencies: prints its rows and writes benchmarks/results/NAME.json. */
export async function report(result: {
  readonly name: string;
  readonly question: string;
  readonly rows: { readonly [name: string]: Row };
  readonly notes?: readonly string[];
  readonly leftOut?: readonly LeftOut[];
}): Promise<void> {
  console.log(`\n${result.name}: ${result.question}`);
  console.table(result.rows);
  await writeResult({ ...result, ...surroundings() });
}

/** The machine on which a figure was measured. A figure means nothing without it. */
export function surroundings(): { readonly versions: object; readonly machine: object } {
  return {
    versions: { node: process.versions.node, v8: process.versions.v8, "isolated-vm": versionOf("isolated-vm") },
    machine: { cores: availableParallelism(), cpu: cpus()[0]?.model ?? "unknown" },
  };
}

/** Folder of the results. A quick run never overwrites real ones. */
export const resultsUrl: URL = new URL(QUICK ? "../results/quick/" : "../results/", import.meta.url);

/** Writes benchmarks/results/NAME.json, or the file given, and prints what became of the bars that rest on it. */
export async function writeResult(
  result: { readonly name: string; readonly [field: string]: unknown },
  path?: string,
): Promise<void> {
  await mkdir(resultsUrl, { recursive: true });
  const text = JSON.stringify(result, null, 2);
  await writeFile(path ?? new URL(`${result.name}.json`, resultsUrl), `${text}\n`);
  for (const bar of BARS) {
    if (bar.result === result.name) console.log(toLine(bar, judgeBar(bar, JSON.parse(text) as Result)));
  }
}
