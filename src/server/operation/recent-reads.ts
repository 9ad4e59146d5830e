// Keeps results of expensive reads for a while: several viewers, and one who reloads, cost no more than one.

/** Shortest and longest time in ms for which an overview is kept. In between, so long that reading it takes at most 2 % of the time. */
const KEPT_MS = { min: 1_000, max: 30_000 } as const;

const TIME_PER_COST = 50;

const MAX_KEPT = 200;

/** Keeps what was read lately, the longer the more it cost. */
export class RecentReads<Result> {
  readonly #recent = new Map<string, { until: number; readonly result: Promise<Result> }>();

  async read(key: string, read: () => Promise<Result>): Promise<Result> {
    const found = this.#recent.get(key);
    if (found !== undefined && performance.now() < found.until) return await found.result;
    const [oldest] = this.#recent.keys();
    if (this.#recent.size >= MAX_KEPT && oldest !== undefined) this.#recent.delete(oldest);
    const begun = performance.now();
    const kept = { until: Number.POSITIVE_INFINITY, result: read() };
    this.#recent.delete(key);
    this.#recent.set(key, kept);
    try {
      const result = await kept.result;
      const ended = performance.now();
      kept.until = ended + Math.min(KEPT_MS.max, Math.max(KEPT_MS.min, (ended - begun) * TIME_PER_COST));
      return result;
    } catch (thrown) {
      if (this.#recent.get(key) === kept) this.#recent.delete(key);
      throw thrown;
    }
  }
}
