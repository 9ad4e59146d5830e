// Second pass over the rows: collects one column's values in the form its type needs, and summarizes them.
import type { InferredColumn } from "./infer-columns.ts";
import { type NumberSummary, quantile, summarizeNumbers, withoutNoise } from "./statistics.ts";
import type { ValueKind } from "./value-kinds.ts";

/** Collects the values of one column; missing ones never arrive. */
interface ColumnCollector<Summary> {
  add(value: string): void;
  finish(): Summary;
}

export class NumberCollector implements ColumnCollector<NumberSummary & { quantiles: { p: number; value: number }[] }> {
  readonly #values: SortedNumbers;
  readonly #quantiles: readonly number[];

  constructor(column: InferredColumn, kind: ValueKind, quantiles: readonly number[]) {
    this.#values = new SortedNumbers(column.count, kind);
    this.#quantiles = quantiles;
  }

  add(value: string): void {
    this.#values.add(value);
  }

  finish(): NumberSummary & { quantiles: { p: number; value: number }[] } {
    const sorted = this.#values.sort();
    const quantiles = this.#quantiles.map((p) => ({ p, value: withoutNoise(quantile(sorted, p)) }));
    return { ...summarizeNumbers(sorted), quantiles };
  }
}

interface DateSummary {
  format: string;
  unique: number;
  min: string;
  max: string;
  median: string;
  spanDays: number;
}

const DAY_MS = 86_400_000;

export class DateCollector implements ColumnCollector<DateSummary> {
  readonly #values: SortedNumbers;
  readonly #format: string;

  constructor(column: InferredColumn, kind: ValueKind) {
    this.#values = new SortedNumbers(column.count, kind);
    this.#format = kind.format;
  }

  add(value: string): void {
    this.#values.add(value);
  }

  finish(): DateSummary {
    const sorted = this.#values.sort();
    const { unique, min, max } = summarizeNumbers(sorted);
    const onlyDays = sorted.every((time) => time % DAY_MS === 0);
    const show = (time: number) => new Date(time).toISOString().slice(0, onlyDays ? 10 : undefined);
    /** The lower of the two middle dates: a day that is in the file. */
    const median = sorted[Math.floor((sorted.length - 1) / 2)] ?? min;
    return {
      format: this.#format,
      unique,
      min: show(min),
      max: show(max),
      median: show(median),
      spanDays: withoutNoise((max - min) / DAY_MS),
    };
  }
}

interface BooleanSummary {
  trueCount: number;
  falseCount: number;
  unique: number;
}

export class BooleanCollector implements ColumnCollector<BooleanSummary> {
  readonly #kind: ValueKind;
  #trueCount = 0;
  #falseCount = 0;

  constructor(kind: ValueKind) {
    this.#kind = kind;
  }

  add(value: string): void {
    if (this.#kind.read(value) === 1) this.#trueCount += 1;
    else this.#falseCount += 1;
  }

  finish(): BooleanSummary {
    const unique = Number(this.#trueCount > 0) + Number(this.#falseCount > 0);
    return { trueCount: this.#trueCount, falseCount: this.#falseCount, unique };
  }
}

interface TextSummary {
  unique: number;
  uniqueIsExact: boolean;
  minLength: number;
  maxLength: number;
  meanLength: number;
  topValues: { value: string; count: number }[];
}

/** Longer values are cut in the report; they are counted whole. */
const SHOWN_CHARACTERS = 200;

export class TextCollector implements ColumnCollector<TextSummary> {
  readonly #counts = new Map<string, number>();
  readonly #maxDistinct: number;
  readonly #topValues: number;
  #uniqueIsExact = true;
  #count = 0;
  #characters = 0;
  #minLength = Number.POSITIVE_INFINITY;
  #maxLength = 0;

  /** @param maxDistinct values past this many distinct ones are not told apart: the memory of an isolate is small */
  constructor(maxDistinct: number, topValues: number) {
    this.#maxDistinct = maxDistinct;
    this.#topValues = topValues;
  }

  add(value: string): void {
    this.#count += 1;
    this.#characters += value.length;
    this.#minLength = Math.min(this.#minLength, value.length);
    this.#maxLength = Math.max(this.#maxLength, value.length);
    const seen = this.#counts.get(value);
    if (seen !== undefined) this.#counts.set(value, seen + 1);
    else if (this.#counts.size < this.#maxDistinct) this.#counts.set(value, 1);
    else this.#uniqueIsExact = false;
  }

  finish(): TextSummary {
    const byCount = [...this.#counts].sort(([a, countA], [b, countB]) => countB - countA || (a < b ? -1 : 1));
    return {
      unique: this.#counts.size,
      uniqueIsExact: this.#uniqueIsExact,
      minLength: this.#minLength,
      maxLength: this.#maxLength,
      meanLength: withoutNoise(this.#characters / this.#count),
      topValues: byCount.slice(0, this.#topValues).map(([value, count]) => ({ value: shorten(value), count })),
    };
  }
}

function shorten(value: string): string {
  return value.length > SHOWN_CHARACTERS ? `${value.slice(0, SHOWN_CHARACTERS)}…` : value;
}

/** A column's values as numbers, in an array of exactly their count. */
class SortedNumbers {
  readonly #values: Float64Array;
  readonly #kind: ValueKind;
  #length = 0;

  constructor(count: number, kind: ValueKind) {
    this.#values = new Float64Array(count);
    this.#kind = kind;
  }

  add(value: string): void {
    this.#values[this.#length] = this.#kind.read(value) ?? 0;
    this.#length += 1;
  }

  sort(): Float64Array {
    return this.#values.sort();
  }
}
