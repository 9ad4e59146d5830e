// performance: the clock in whole milliseconds, with marks and measures (High Resolution Time, User Timing).
import { timeOrigin } from "../../coarse-time.ts";
import { reportMeasure } from "../../spans.ts";
import { EventTarget } from "../events/events.ts";
import { defineInterface, requireArguments } from "../shared/webidl.ts";
import {
  elapsed,
  inOrder,
  KEY,
  type PerformanceEntry,
  PerformanceMark,
  PerformanceMeasure,
  select,
  toTime,
} from "./performance-entries.ts";
import { connectTimeline, observe } from "./performance-observer.ts";

export { PerformanceEntry, PerformanceMark, PerformanceMeasure } from "./performance-entries.ts";
export { PerformanceObserver, PerformanceObserverEntryList } from "./performance-observer.ts";

let entries: PerformanceEntry[] = [];
connectTimeline(() => entries);

function add(entry: PerformanceEntry): void {
  entries.push(entry);
  observe(entry);
}

/** Converts to a time: a number, or the start of the last mark with a name. */
function toMark(mark: unknown, what: string): number {
  if (typeof mark === "number") return toTime(mark, what);
  const name = `${mark as string}`;
  const found = entries.findLast((entry) => entry.entryType === "mark" && entry.name === name);
  if (found !== undefined) return found.startTime;
  throw new DOMException(`${what}: there is no mark "${name}"`, "SyntaxError");
}

interface Span {
  readonly start?: unknown;
  readonly end?: unknown;
  readonly duration?: unknown;
  readonly detail?: unknown;
}

function isSpan(value: unknown): value is Span {
  if (typeof value !== "object" || value === null) return false;
  const { start, end, duration, detail } = value as Span;
  return start !== undefined || end !== undefined || duration !== undefined || detail !== undefined;
}

function checkSpan({ start, end, duration }: Span, endMark: unknown): void {
  if (endMark !== undefined) throw new TypeError("measure expected no end mark together with options");
  if (start === undefined && end === undefined) throw new TypeError("measure expected a start or an end");
  if (start !== undefined && end !== undefined && duration !== undefined) {
    throw new TypeError("measure expected two of start, end and duration");
  }
}

/** Implements the "measure() method" of User Timing: the end is computed first. */
function toTimes({ start, end, duration }: Span, endMark: unknown): readonly [start: number, end: number] {
  const length = duration === undefined ? undefined : toTime(duration, "measure");
  let until: number;
  if (endMark !== undefined) until = toMark(endMark, "measure");
  else if (end !== undefined) until = toMark(end, "measure");
  else if (start !== undefined && length !== undefined) until = toMark(start, "measure") + length;
  else until = elapsed();
  let from = 0;
  if (start !== undefined) from = toMark(start, "measure");
  else if (length !== undefined && end !== undefined) from = until - length;
  return [from, until];
}

export class Performance extends EventTarget {
  constructor(key: unknown = undefined) {
    super();
    if (key !== KEY) throw new TypeError("Performance cannot be constructed");
  }

  now(): number {
    return elapsed();
  }
  get timeOrigin(): number {
    return timeOrigin();
  }
  toJSON(): object {
    return { timeOrigin: timeOrigin() };
  }

  mark(name: unknown, options: unknown = undefined): PerformanceMark {
    requireArguments("mark", 1, arguments.length);
    const mark = new PerformanceMark(name, options);
    add(mark);
    return mark;
  }

  measure(name: unknown, startOrOptions: unknown = undefined, endMark: unknown = undefined): PerformanceMeasure {
    requireArguments("measure", 1, arguments.length);
    const text = `${name as string}`;
    let span: Span = {};
    if (isSpan(startOrOptions)) {
      span = startOrOptions;
      checkSpan(span, endMark);
    } else if (startOrOptions !== undefined && typeof startOrOptions !== "object") span = { start: startOrOptions };
    const [startTime, end] = toTimes(span, endMark);
    const parts = { name: text, entryType: "measure", startTime, duration: end - startTime };
    const measure = new PerformanceMeasure(KEY, parts, span.detail);
    add(measure);
    reportMeasure(text, elapsed() - end, end - startTime);
    return measure;
  }

  clearMarks(name: unknown = undefined): void {
    clear("mark", name);
  }
  clearMeasures(name: unknown = undefined): void {
    clear("measure", name);
  }

  getEntries(): PerformanceEntry[] {
    return inOrder(entries);
  }
  getEntriesByType(type: unknown): PerformanceEntry[] {
    requireArguments("getEntriesByType", 1, arguments.length);
    return select(entries, undefined, `${type as string}`);
  }
  getEntriesByName(name: unknown, type: unknown = undefined): PerformanceEntry[] {
    requireArguments("getEntriesByName", 1, arguments.length);
    return select(entries, `${name as string}`, type === undefined ? undefined : `${type as string}`);
  }
}

function clear(type: string, name: unknown): void {
  const text = name === undefined ? undefined : `${name as string}`;
  entries = entries.filter((entry) => entry.entryType !== type || (text !== undefined && entry.name !== text));
}

defineInterface("Performance", Performance);

export const performance: Performance = new Performance(KEY);
