// Assertions that every attack must pass: an answer, a responsive host, and bounded memory of the worker processes. How soon calls end is
// measured in benchmarks/kill.ts.
import { constants, type PerformanceEntry, PerformanceObserver } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { expect, vi } from "vitest";
import { controlHoldMs } from "../support/loop-hold.ts";
import { isAlive, isBeingKilled, residentMiB, threadMs, withDescendants } from "../support/processes.ts";

/** Longest time in ms that a call may take after its deadline, on a machine of any speed: what its deadline does not end goes on for ever. */
export const LATE_MS = 60_000;
/** Longest time in ms that other work in the host's process may wait for the event loop. On a slow machine, the control takes longer. */
const MAX_LAG_MS = 100;

const TURN_MS = 5;

interface Span {
  readonly begin: number;
  readonly end: number;
}

const overlapMs = (one: Span, other: Span): number =>
  Math.max(0, Math.min(one.end, other.end) - Math.max(one.begin, other.begin));

/** Full collections of this process: they take as long as its heap is large, which is that of all the tests before. */
class FullCollections implements Disposable {
  readonly #spans: Span[] = [];
  readonly #observer = new PerformanceObserver((list) => this.#take(list.getEntries()));

  constructor() {
    this.#observer.observe({ entryTypes: ["gc"] });
  }

  #take(entries: readonly PerformanceEntry[]): void {
    for (const entry of entries) {
      const { startTime: begin, duration } = entry;
      const { kind } = (entry as { readonly detail?: unknown }).detail as { readonly kind: number };
      if (kind === constants.NODE_PERFORMANCE_GC_MAJOR) this.#spans.push({ begin, end: begin + duration });
    }
  }

  /** Returns the time in ms that full collections took within the span. */
  msIn(span: Span): number {
    this.#take(this.#observer.takeRecords());
    return this.#spans.reduce((ms, one) => ms + overlapMs(one, span), 0);
  }

  [Symbol.dispose](): void {
    this.#observer.disconnect();
  }
}

/** A bound on time was passed. */
class Late extends Error {
  constructor(what: string, boundMs: number, ms: number) {
    super(`${what}: expected less than ${boundMs} ms, got ${ms}`);
  }
}

/** Expects that a result has arrived in time. For {@link promptly}. */
export function expectInTime(tookMs: number, dueMs: number): void {
  if (tookMs >= dueMs) throw new Late("Time to the result", dueMs, tookMs);
}

const TRIES = 5;

/**
 * Runs a test that expects promptness. What an attack does to the host it does each time; what the machine's other work does (a virtual
 * processor counts time that it did not have) it does now and then.
 */
export async function promptly(run: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await run();
      return;
    } catch (thrown) {
      if (!(thrown instanceof Late) || tries === TRIES) throw thrown;
    }
  }
}

/**
 * Measures the longest turn of the event loop, in ms of this thread's CPU time. Wall-clock time would measure the machine's other work:
 * next to two other programs, turns in which the host had nothing to do took more than 600 ms.
 */
export class LagMeter implements Disposable {
  readonly #timer: NodeJS.Timeout;
  readonly #collections = new FullCollections();
  #turn = performance.now();
  #busy = threadMs();
  readonly #long: (Span & { readonly busyMs: number })[] = [];

  constructor() {
    this.#timer = setInterval(() => this.#look(), TURN_MS);
  }

  #look(): void {
    const span = { begin: this.#turn, end: performance.now() };
    const busy = threadMs();
    const overdueMs = span.end - span.begin - TURN_MS;
    const busyMs = Math.min(overdueMs, busy - this.#busy);
    if (busyMs >= MAX_LAG_MS) this.#long.push({ ...span, busyMs });
    this.#turn = span.end;
    this.#busy = busy;
  }

  /** For {@link promptly}. */
  async expectPrompt(): Promise<void> {
    // The meter is a timer: what has just been held up is counted at its next turn.
    await pause(2 * TURN_MS);
    const longestMs = Math.max(0, ...this.#long.map((span) => span.busyMs - this.#collections.msIn(span)));
    if (longestMs < MAX_LAG_MS) return;
    const boundMs = Math.max(MAX_LAG_MS, await controlHoldMs());
    if (longestMs >= boundMs) throw new Late("Longest hold of the event loop", boundMs, longestMs);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#collections[Symbol.dispose]();
  }
}

const SAMPLE_MS = 10;
/**
 * A process that has passed its bound must end within this number of checks: half a minute on an idle machine. The host looks by a timer
 * of the same thread, so that both wait alike where the thread waits for a processor.
 */
const KILL_LOOKS = 3_000;
/** Time in ms that the kernel may need to end a killed process. */
export const DEATH_MS = 200_000;
/** V8's limit is a guideline: twice of it, and 150 MiB for the process itself. */
const boundOf = (memoryMiB: number): number => 2 * memoryMiB + 150;

interface Excess {
  readonly looks: number;
  mib: number;
}

/**
 * Looks at the memory of some processes, and of those below them, again and again. What passes its bound and is below it again at the
 * next look was there between two looks of the host's, which looks half as often.
 */
export class MemoryWatch implements Disposable {
  readonly #boundMiB: number;
  readonly #pidsOf: () => readonly number[];
  readonly #excesses = new Map<number, Excess>();
  /** What passed the bound and lived on: `pid MiB`. */
  readonly #lived = new Map<number, number>();
  readonly #timer: NodeJS.Timeout;

  /** @param memoryMiB the limit of a call in them */
  constructor(pidsOf: () => readonly number[], memoryMiB: number) {
    this.#boundMiB = boundOf(memoryMiB);
    this.#pidsOf = pidsOf;
    this.#timer = setInterval(() => this.#look(), SAMPLE_MS);
  }

  #look(): void {
    const pids = new Set([...withDescendants(this.#pidsOf()), ...this.#excesses.keys()]);
    for (const pid of pids) {
      const mib = residentMiB(pid);
      if (mib <= this.#boundMiB) {
        this.#excesses.delete(pid);
        continue;
      }
      const before = this.#excesses.get(pid) ?? { looks: 0, mib };
      const excess = { looks: before.looks + 1, mib: Math.max(before.mib, mib) };
      this.#excesses.set(pid, excess);
      if (excess.looks > KILL_LOOKS && isAlive(pid) && !isBeingKilled(pid)) {
        this.#lived.set(pid, Math.round(excess.mib));
      }
    }
  }

  /** Fails if a process has exceeded its bound, unless it was killed soon afterwards. */
  async expectBounded(): Promise<void> {
    this.#look();
    const isPending = (): boolean => [...this.#excesses.keys()].some((pid) => isAlive(pid) && !this.#lived.has(pid));
    await vi.waitFor(() => expect(isPending()).toBe(false), { timeout: DEATH_MS, interval: SAMPLE_MS });
    const lived = [...this.#lived.values()].map((mib) => `${mib} MiB, bound ${this.#boundMiB} MiB`);
    expect(lived, "Memory of processes that passed their bound and lived on").toEqual([]);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
