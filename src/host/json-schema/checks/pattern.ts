// Regular expressions of untrusted schemas. They are compiled once, and run directly if their cost is known to be small; otherwise they run
// only under the watchdog of guard.ts.
import * as z from "zod";
import type { SchemaRun } from "../schema-run.ts";
import { estimateCost, type PatternCost } from "./pattern-cost.ts";

/**
 * V8's compilation of a pattern cannot be stopped: 500 nested groups take 0.6 s, and 400 times `\p{L}` 50 ms (measured). Patterns within
 * these limits take at most 8 ms.
 */
const MAX_PATTERN_LENGTH = 2_048;
const MAX_GROUP_DEPTH = 16;
/** Unicode classes in all patterns of a schema. Parsing one takes 60 µs (measured). */
const MAX_UNICODE_CLASSES = 100;
/** Longest pattern in characters after V8 has unrolled its counted repeats. */
const MAX_UNROLLED = 20_000;

/** Backtracking steps that run without the watchdog: about 1 ms. */
const MAX_DIRECT_STEPS = 300_000;
/** Steps of a backtracking regex that cost as much as a unit of fuel (see SchemaRun.spend). */
const STEPS_PER_UNIT = 16;

/**
 * The patterns of zod in its JSON Schemas. They are in wide use, and tests show that they take quadratic time at worst, so they are trusted
 * for strings up to {@link MAX_TRUSTED_LENGTH}. The general estimate is too high for some of them.
 */
const TRUSTED_SOURCES: ReadonlySet<string> = new Set([
  z.regexes.email.source,
  z.regexes.uuid().source,
  z.regexes.base64.source,
  z.regexes.base64url.source,
  z.regexes.ipv4.source,
  z.regexes.ipv6.source,
  z.regexes.cidrv4.source,
  z.regexes.date.source,
  z.regexes.datetime({}).source,
  z.regexes.duration.source,
]);
const TRUSTED_FACTOR = 2;
const MAX_TRUSTED_LENGTH = 320;

/** Counts the Unicode classes in all patterns of one schema. */
export interface PatternTally {
  unicodeClasses: number;
}

/** Returns what a valid pattern would be, if the pattern is invalid; undefined for a valid pattern. */
export function patternFault(source: string, tally: PatternTally): string | undefined {
  if (TRUSTED_SOURCES.has(source)) return undefined;
  if (source.length > MAX_PATTERN_LENGTH) return `a pattern of at most ${MAX_PATTERN_LENGTH} characters`;
  tally.unicodeClasses += source.split(/\\[pP]/).length - 1;
  if (tally.unicodeClasses > MAX_UNICODE_CLASSES) return `at most ${MAX_UNICODE_CLASSES} \\p classes in total`;
  if (toRegExp(source) === undefined) return "an ECMAScript regular expression";
  const cost = estimateCost(source);
  if (cost.depth > MAX_GROUP_DEPTH) return `a pattern with groups nested at most ${MAX_GROUP_DEPTH} deep`;
  if (cost.unrolled > MAX_UNROLLED) return "a pattern with smaller repeat counts";
  return undefined;
}

/** A compiled pattern. */
export class Pattern {
  readonly source: string;
  readonly #regExp: RegExp;
  /** Computed on first use, since a trusted pattern with short strings does not need it. */
  #cost: PatternCost | undefined;
  readonly #trusted: boolean;

  /** @param source a pattern that {@link patternFault} has accepted */
  constructor(source: string) {
    this.source = source;
    this.#regExp = toRegExp(source) ?? /(?!)/;
    this.#trusted = TRUSTED_SOURCES.has(source);
  }

  /** @throws {StopSignal} "needs-guard" when the test may be slow and no watchdog runs */
  test(text: string, run: SchemaRun): boolean {
    const steps = this.#steps(text.length);
    if (steps > MAX_DIRECT_STEPS) run.requireGuard();
    run.spend(1 + Math.ceil(Math.min(steps, MAX_DIRECT_STEPS) / STEPS_PER_UNIT));
    return this.#regExp.test(text);
  }

  #steps(chars: number): number {
    if (this.#trusted && chars <= MAX_TRUSTED_LENGTH) return TRUSTED_FACTOR * chars ** 2;
    this.#cost ??= estimateCost(this.source);
    return this.#cost.factor * (chars + 1) ** this.#cost.degree;
  }
}

/** Compiles with the `u` flag, as JSON Schema recommends, or else without it, for common patterns that `u` forbids, such as `[\w-.]`. */
function toRegExp(source: string): RegExp | undefined {
  for (const flags of ["u", ""]) {
    try {
      return new RegExp(source, flags);
    } catch {
      // Not valid with these flags.
    }
  }
  return undefined;
}
