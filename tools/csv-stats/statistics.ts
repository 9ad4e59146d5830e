// Statistics over plain numbers. Knows nothing of CSV.

export interface NumberSummary {
  readonly unique: number;
  readonly min: number;
  readonly max: number;
  readonly sum: number;
  readonly mean: number;
  readonly median: number;
  /** Sample standard deviation; null for a single value. */
  readonly stdev: number | null;
}

/** Digits of a fraction that survive: the rest is noise of binary arithmetic, such as 0.30000000000000004. */
const SIGNIFICANT_DIGITS = 14;

export function withoutNoise(value: number): number {
  return Number.isInteger(value) ? value : Number(value.toPrecision(SIGNIFICANT_DIGITS));
}

/** @param sorted at least one number, in ascending order */
export function summarizeNumbers(sorted: Float64Array): NumberSummary {
  const count = sorted.length;
  const sum = compensatedSum(sorted);
  const mean = sum / count;
  const squares = compensatedSum(sorted.map((value) => (value - mean) ** 2));
  return {
    unique: countUnique(sorted),
    min: sorted[0] ?? 0,
    max: sorted[count - 1] ?? 0,
    sum: withoutNoise(sum),
    mean: withoutNoise(mean),
    median: withoutNoise(quantile(sorted, 0.5)),
    stdev: count < 2 ? null : withoutNoise(Math.sqrt(squares / (count - 1))),
  };
}

/** Linear interpolation between the closest ranks: what Excel's PERCENTILE, NumPy, pandas and R (type 7) do. */
export function quantile(sorted: Float64Array, p: number): number {
  const position = (sorted.length - 1) * p;
  const lower = Math.floor(position);
  const low = sorted[lower] ?? 0;
  const high = sorted[Math.min(lower + 1, sorted.length - 1)] ?? low;
  return low + (high - low) * (position - lower);
}

/** Neumaier's sum: its error does not grow with the number of values. */
function compensatedSum(values: Float64Array): number {
  let sum = 0;
  let lost = 0;
  for (const value of values) {
    const next = sum + value;
    lost += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum;
    sum = next;
  }
  return sum + lost;
}

function countUnique(sorted: Float64Array): number {
  let unique = 0;
  let previous: number | undefined;
  for (const value of sorted) {
    if (value !== previous) unique += 1;
    previous = value;
  }
  return unique;
}
