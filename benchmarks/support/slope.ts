// Does a figure drift? A line through its samples by least squares, and whether its slope is more than noise.

export interface Sample {
  readonly hours: number;
  readonly value: number;
}

export interface Slope {
  readonly n: number;
  readonly mean: number;
  readonly perHour: number;
  readonly standardError: number;
  /** The change by the slope over the whole measured time. */
  readonly change: number;
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

/**
 * Samples that follow each other are alike, so that n of them say less than n independent ones: the standard error is widened by
 * the residuals' correlation with their successors.
 */
function correlationFactor(residuals: readonly number[]): number {
  const products = residuals.slice(1).map((residual, index) => residual * (residuals[index] ?? 0));
  const squares = sumOf(residuals.map((residual) => residual ** 2));
  const correlation = squares === 0 ? 0 : Math.min(0.95, Math.max(0, sumOf(products) / squares));
  return Math.sqrt((1 + correlation) / (1 - correlation));
}

/** The line through the samples; with fewer than three of them nothing is known, and the error is infinite. */
export function slopeOf(samples: readonly Sample[]): Slope {
  const n = samples.length;
  const meanX = sumOf(samples.map(({ hours }) => hours)) / n;
  const mean = sumOf(samples.map(({ value }) => value)) / n;
  const spread = sumOf(samples.map(({ hours }) => (hours - meanX) ** 2));
  if (n < 3 || spread === 0) return { n, mean, perHour: 0, standardError: Number.POSITIVE_INFINITY, change: 0 };
  const perHour = sumOf(samples.map(({ hours, value }) => (hours - meanX) * (value - mean))) / spread;
  const residuals = samples.map(({ hours, value }) => value - mean - perHour * (hours - meanX));
  const variance = sumOf(residuals.map((residual) => residual ** 2)) / (n - 2);
  const standardError = Math.sqrt(variance / spread) * correlationFactor(residuals);
  const hours = (samples.at(-1)?.hours ?? 0) - (samples[0]?.hours ?? 0);
  return { n, mean, perHour, standardError, change: perHour * hours };
}

/** The allowed drift of a figure: its direction, and its largest change over the whole run. */
export interface DriftRule {
  readonly unit: string;
  readonly bad: "up" | "down";
  /** A change over the whole run that is ignored even if it is certain; as a share of the mean where `relative`. */
  readonly floor: number;
  readonly relative?: boolean;
}

/** Three standard errors: with a dozen figures, two would cry wolf in every second run. */
const ERRORS = 3;

/** Fewer say nothing of a line. */
const MIN_SAMPLES = 8;

export type Verdict =
  | "too few samples"
  | "flat"
  | "within noise"
  | "below the floor"
  | "drifts the good way"
  | "DRIFTS";

export function judge(slope: Slope, rule: DriftRule): Verdict {
  if (slope.n < MIN_SAMPLES) return "too few samples";
  if (slope.perHour === 0) return "flat";
  if (Math.abs(slope.perHour) <= ERRORS * slope.standardError) return "within noise";
  const floor = rule.relative === true ? rule.floor * Math.abs(slope.mean) : rule.floor;
  if (Math.abs(slope.change) <= floor) return "below the floor";
  return slope.perHour > 0 === (rule.bad === "up") ? "DRIFTS" : "drifts the good way";
}
