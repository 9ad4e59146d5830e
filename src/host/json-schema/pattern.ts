// Regular expressions from a foreign schema: compiled once, run directly where their cost is known to be small, else only under a guard.
import { z } from "zod";
import { estimateCost, type PatternCost } from "./pattern-cost.ts";
import type { Run } from "./run.ts";

/**
 * What V8 takes long to compile, without being stoppable [m]: 500 nested groups 0.6 s, 400 of `\p{L}` 50 ms.
 * A pattern within these bounds compiled in at most 8 ms.
 */
const MAX_PATTERN_CHARS = 2_048;
const MAX_GROUP_DEPTH = 16;
/** In all patterns of a schema: parsing one takes 60 µs [m]. */
const MAX_UNICODE_CLASSES = 100;
/** Counted repeats are unrolled: this many characters of pattern at most, in all. */
const MAX_UNROLLED = 20_000;

/** Backtracking steps that run without a guard: about 1 ms. */
const MAX_DIRECT_STEPS = 300_000;
/** Steps of a backtracking regex that cost as much as a unit of fuel (see Run.spend). */
const STEPS_PER_UNIT = 16;

/**
 * zod's own patterns as its JSON Schemas carry them: in wide use, and tested here to be quadratic at worst, so trusted on
 * strings up to {@link MAX_TRUSTED_CHARS}. The general estimate is too careful for some of them.
 */
const TRUSTED_SOURCES: ReadonlySet<string> = new Set([
  z.core.regexes.email.source,
  z.core.regexes.uuid().source,
  z.core.regexes.base64.source,
  z.core.regexes.base64url.source,
  z.core.regexes.ipv4.source,
  z.core.regexes.ipv6.source,
  z.core.regexes.cidrv4.source,
  z.core.regexes.date.source,
  z.core.regexes.datetime({}).source,
  z.core.regexes.duration.source,
]);
const TRUSTED_FACTOR = 2;
const MAX_TRUSTED_CHARS = 320;

/** What the patterns of one schema use together. */
export interface PatternTally {
  unicodeClasses: number;
}

/** What is wrong with a pattern, as what was expected; undefined when it can be used. */
export function patternFault(source: string, tally: PatternTally): string | undefined {
  if (TRUSTED_SOURCES.has(source)) return undefined;
  if (source.length > MAX_PATTERN_CHARS) return `a pattern of at most ${MAX_PATTERN_CHARS} characters`;
  tally.unicodeClasses += source.split(/\\[pP]/).length - 1;
  if (tally.unicodeClasses > MAX_UNICODE_CLASSES) return `at most ${MAX_UNICODE_CLASSES} \\p classes in all`;
  if (toRegExp(source) === undefined) return "a regular expression of ECMAScript";
  const cost = estimateCost(source);
  if (cost.depth > MAX_GROUP_DEPTH) return `a pattern with at most ${MAX_GROUP_DEPTH} groups in one another`;
  if (cost.unrolled > MAX_UNROLLED) return "a pattern with smaller repeat counts";
  return undefined;
}

/** A pattern ready to test strings. */
export class Pattern {
  readonly source: string;
  readonly #regExp: RegExp;
  /** Made when first asked for: a trusted pattern on a short string never does. */
  #cost: PatternCost | undefined;
  readonly #trusted: boolean;

  /** `source` has passed {@link patternFault}. */
  constructor(source: string) {
    this.source = source;
    this.#regExp = toRegExp(source) ?? /(?!)/;
    this.#trusted = TRUSTED_SOURCES.has(source);
  }

  /** @throws {StopSignal} "needs-guard" when this pair may be slow and nothing watches */
  test(text: string, run: Run): boolean {
    const steps = this.#steps(text.length);
    if (steps > MAX_DIRECT_STEPS) run.requireGuard();
    run.spend(1 + Math.ceil(Math.min(steps, MAX_DIRECT_STEPS) / STEPS_PER_UNIT));
    return this.#regExp.test(text);
  }

  #steps(chars: number): number {
    if (this.#trusted && chars <= MAX_TRUSTED_CHARS) return TRUSTED_FACTOR * chars ** 2;
    this.#cost ??= estimateCost(this.source);
    return this.#cost.factor * (chars + 1) ** this.#cost.degree;
  }
}

/** With the `u` flag as JSON Schema asks; without it for what many authors write and `u` forbids, such as `[\w-.]`. */
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
