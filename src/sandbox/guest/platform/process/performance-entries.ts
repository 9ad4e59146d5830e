// Entries of a performance timeline (Performance Timeline, User Timing): marks and measures.
import { now, timeOrigin } from "../../coarse-time.ts";
import { defineInterface, requireArguments, toDictionary } from "../shared/webidl.ts";
import { structuredClone } from "../util/structured-clone.ts";

export const KEY: object = {};

export interface EntryParts {
  readonly name: string;
  readonly entryType: string;
  readonly startTime: number;
  readonly duration: number;
}

export class PerformanceEntry {
  readonly #parts: EntryParts;

  constructor(key: unknown = undefined, parts: unknown = undefined) {
    if (key !== KEY) throw new TypeError("PerformanceEntry cannot be constructed");
    this.#parts = parts as EntryParts;
  }

  get name(): string {
    return this.#parts.name;
  }
  get entryType(): string {
    return this.#parts.entryType;
  }
  get startTime(): number {
    return this.#parts.startTime;
  }
  get duration(): number {
    return this.#parts.duration;
  }
  toJSON(): object {
    const { name, entryType, startTime, duration } = this.#parts;
    return { name, entryType, startTime, duration };
  }
}

/** Returns a clone. A missing detail becomes null. */
const toDetail = (detail: unknown): unknown =>
  detail === undefined || detail === null ? null : structuredClone(detail);

/** The value of `performance.now()`. */
export const elapsed = (): number => now() - timeOrigin();

export function toTime(value: unknown, what: string): number {
  const time = Number(value);
  if (!Number.isFinite(time)) throw new TypeError(`${what} expected a number, got ${String(value)}`);
  if (time < 0) throw new TypeError(`${what} expected a time from 0 on, got ${time}`);
  return time;
}

export class PerformanceMark extends PerformanceEntry {
  readonly #detail: unknown;

  constructor(name: unknown, options: unknown = undefined) {
    requireArguments("PerformanceMark", 1, arguments.length);
    const text = `${name as string}`;
    const { detail, startTime } = toDictionary(options, "PerformanceMark");
    const start = startTime === undefined ? elapsed() : toTime(startTime, "PerformanceMark");
    super(KEY, { name: text, entryType: "mark", startTime: start, duration: 0 });
    this.#detail = toDetail(detail);
  }

  get detail(): unknown {
    return this.#detail;
  }
  override toJSON(): object {
    return { ...super.toJSON(), detail: this.#detail };
  }
}

export class PerformanceMeasure extends PerformanceEntry {
  readonly #detail: unknown;

  constructor(key: unknown = undefined, parts: unknown = undefined, detail: unknown = undefined) {
    super(key, parts);
    this.#detail = toDetail(detail);
  }

  get detail(): unknown {
    return this.#detail;
  }
  override toJSON(): object {
    return { ...super.toJSON(), detail: this.#detail };
  }
}

defineInterface("PerformanceEntry", PerformanceEntry);
defineInterface("PerformanceMark", PerformanceMark);
defineInterface("PerformanceMeasure", PerformanceMeasure);

/** Sorts by start time. */
export const inOrder = (entries: readonly PerformanceEntry[]): PerformanceEntry[] =>
  entries.toSorted((left, right) => left.startTime - right.startTime);

export function select(entries: readonly PerformanceEntry[], name?: string, type?: string): PerformanceEntry[] {
  return inOrder(
    entries.filter(
      (entry) => (name === undefined || entry.name === name) && (type === undefined || entry.entryType === type),
    ),
  );
}
