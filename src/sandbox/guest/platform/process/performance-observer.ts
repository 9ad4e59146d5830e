// PerformanceObserver (Performance Timeline): receives new entries in a separate task.

import { queueTask } from "../../timers.ts";
import { reportException } from "../../uncaught-errors.ts";
import { defineInterface, requireArguments, toDictionary } from "../shared/webidl.ts";
import { inOrder, KEY, type PerformanceEntry, select } from "./performance-entries.ts";

export const ENTRY_TYPES = ["mark", "measure"] as const;
const isEntryType = (type: unknown): boolean => (ENTRY_TYPES as readonly unknown[]).includes(type);

export class PerformanceObserverEntryList {
  readonly #entries: readonly PerformanceEntry[];

  constructor(key: unknown = undefined, entries: unknown = undefined) {
    if (key !== KEY) throw new TypeError("PerformanceObserverEntryList cannot be constructed");
    this.#entries = entries as readonly PerformanceEntry[];
  }

  getEntries(): PerformanceEntry[] {
    return inOrder(this.#entries);
  }
  getEntriesByType(type: unknown): PerformanceEntry[] {
    requireArguments("getEntriesByType", 1, arguments.length);
    return select(this.#entries, undefined, `${type as string}`);
  }
  getEntriesByName(name: unknown, type: unknown = undefined): PerformanceEntry[] {
    requireArguments("getEntriesByName", 1, arguments.length);
    return select(this.#entries, `${name as string}`, type === undefined ? undefined : `${type as string}`);
  }
}

const observers = new Set<PerformanceObserver>();
let isQueued = false;

function notifyAll(): void {
  isQueued = false;
  for (const observer of [...observers]) notify(observer);
}

function queueNotification(): void {
  if (isQueued) return;
  isQueued = true;
  queueTask(notifyAll);
}

let notify: (observer: PerformanceObserver) => void;
let enqueue: (observer: PerformanceObserver, entry: PerformanceEntry) => void;
/** Returns the entries so far. */
let timeline: () => readonly PerformanceEntry[] = () => [];

export function connectTimeline(entries: () => readonly PerformanceEntry[]): void {
  timeline = entries;
}

/** Handles a new entry: "queue a PerformanceEntry". */
export function observe(entry: PerformanceEntry): void {
  for (const observer of observers) enqueue(observer, entry);
}

export class PerformanceObserver {
  readonly #callback: (list: PerformanceObserverEntryList, observer: PerformanceObserver, options: object) => void;
  #types = new Set<string>();
  #form: "one" | "many" | undefined;
  #waiting: PerformanceEntry[] = [];
  #isNew = true;

  static {
    enqueue = (observer, entry) => {
      if (!observer.#types.has(entry.entryType)) return;
      observer.#waiting.push(entry);
      queueNotification();
    };
    notify = (observer) => {
      const entries = observer.takeRecords();
      if (entries.length === 0) return;
      const options = observer.#isNew ? { droppedEntriesCount: 0 } : {};
      observer.#isNew = false;
      const list = new PerformanceObserverEntryList(KEY, entries);
      try {
        Reflect.apply(observer.#callback, observer, [list, observer, options]);
      } catch (thrown) {
        reportException(thrown, "in a PerformanceObserver");
      }
    };
  }

  constructor(callback: unknown) {
    if (typeof callback !== "function") throw new TypeError("PerformanceObserver expected a function");
    this.#callback = callback as never;
  }

  observe(options: unknown = undefined): void {
    const { buffered, entryTypes, type } = toDictionary(options, "observe");
    if ((entryTypes === undefined) === (type === undefined)) {
      throw new TypeError("observe expected either entryTypes or type");
    }
    if (entryTypes !== undefined && buffered !== undefined)
      throw new TypeError("observe accepts buffered only together with type");
    const form = type === undefined ? "many" : "one";
    if (this.#form !== undefined && this.#form !== form) {
      throw new DOMException(
        "The observer is already in use with the other form of options",
        "InvalidModificationError",
      );
    }
    this.#form = form;
    const requested = type === undefined ? [...(entryTypes as Iterable<unknown>)].map(String) : [String(type)];
    const types = requested.filter(isEntryType);
    if (types.length === 0) return;
    this.#types = new Set(type === undefined ? types : [...this.#types, ...types]);
    observers.add(this);
    if (!buffered) return;
    for (const entry of timeline()) if (types.includes(entry.entryType)) this.#waiting.push(entry);
    queueNotification();
  }

  disconnect(): void {
    observers.delete(this);
    this.#types = new Set();
    this.#waiting = [];
    this.#form = undefined;
  }

  takeRecords(): PerformanceEntry[] {
    const entries = this.#waiting;
    this.#waiting = [];
    return entries;
  }

  static get supportedEntryTypes(): readonly string[] {
    return SUPPORTED;
  }
}

const SUPPORTED: readonly string[] = Object.freeze([...ENTRY_TYPES]);
defineInterface("PerformanceObserver", PerformanceObserver);
defineInterface("PerformanceObserverEntryList", PerformanceObserverEntryList);
