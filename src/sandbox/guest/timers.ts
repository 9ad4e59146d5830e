// setTimeout and its kin. The worker keeps the clock; the guest keeps the callbacks. All of a call's timers end with it, but a session's.
import { allowance, callState } from "./call-state.ts";
import { hasFixedTime, moveFixedTime, now } from "./coarse-time.ts";
import { describeValue } from "./error-text.ts";
import { post } from "./host.ts";
import {
  append,
  defineGlobal,
  MapConstructor,
  MapPrototypeClear,
  MapPrototypeDelete,
  MapPrototypeForEach,
  MapPrototypeGet,
  MapPrototypeGetSize,
  MapPrototypeSet,
  MathMax,
  MathMin,
  MathTrunc,
  NumberConstructor,
  NumberIsNaN,
  PromiseConstructor,
  PromisePrototypeThen,
  RangeErrorConstructor,
  ReflectApply,
  secure,
  TypeErrorConstructor,
} from "./primordials.ts";
import { reportException } from "./report.ts";

interface Timer {
  readonly run: (...args: unknown[]) => void;
  readonly args: unknown[];
  /** Undefined for a timer that fires once. */
  readonly intervalMs: number | undefined;
  /** When it is to ring, by the guest's clock. */
  dueAt: number;
}

const timers = new MapConstructor<number, Timer>();
let lastId = 0;
/** The longest delay of the platform (HTML, timers: a signed 32-bit integer). */
const MAX_DELAY_MS = 2 ** 31 - 1;
/**
 * Messages about timers in one uninterrupted run of the guest, for each timer that may wait. A message lies in the worker's
 * memory until the worker's next turn, so a loop of setTimeout and clearTimeout must not be able to post for ever.
 */
const POSTS_PER_TIMER = 10;
let postsThisTurn = 0;

/** The worker has entered the guest: what was posted before has been read. */
export function beginTurn(): void {
  postsThisTurn = 0;
}

/** What a chunk puts around callbacks that are kept for later: the context of an AsyncLocalStorage. */
let keepContext = <Run>(run: Run): Run => run;

export function followContext(keep: typeof keepContext): void {
  keepContext = keep;
}

/** For what is handed over now and called in tasks of others. */
export const inContext = <Run>(run: Run): Run => keepContext(run);

/** At least one, as in Node: what is to come as soon as possible has 0. */
function toDelay(value: unknown): number {
  const delay = typeof value === "symbol" || typeof value === "bigint" ? 0 : MathTrunc(NumberConstructor(value));
  return NumberIsNaN(delay) || delay > MAX_DELAY_MS ? 1 : MathMin(MathMax(delay, 1), MAX_DELAY_MS);
}

const dueIn = (delayMs: number): number => now() + delayMs;

function start(name: string, run: unknown, delayMs: number, repeat: boolean, args: unknown[]): number {
  if (typeof run !== "function") {
    throw new TypeErrorConstructor(`${name} expected a function, got ${describeValue(run)}`);
  }
  if (!callState.active) return 0;
  const cap = allowance("timers");
  postsThisTurn += 1;
  if (MapPrototypeGetSize(timers) >= cap || postsThisTurn > cap * POSTS_PER_TIMER) {
    throw new RangeErrorConstructor(`${name}: this call may have ${cap} timers waiting at one time`);
  }
  lastId += 1;
  const intervalMs = repeat ? delayMs : undefined;
  MapPrototypeSet(timers, lastId, { run: keepContext(run as Timer["run"]), args, intervalMs, dueAt: dueIn(delayMs) });
  post("timer", lastId, delayMs);
  return lastId;
}

/** For the prelude's own: a guest may have replaced `setTimeout`. */
export function startTimer(name: string, delay: unknown, run: () => void): void {
  start(name, run, toDelay(delay), false, []);
}

/** What waits for a turn of its own (HTML, "queue a task"), in order, from the one at `nextTask`. */
let tasks: (() => void)[] = [];
let nextTask = 0;

/** One timer for all tasks, beyond the allowance: there is never a second one. */
function startTaskTimer(): void {
  lastId += 1;
  MapPrototypeSet(timers, lastId, { run: runTask, args: [], intervalMs: undefined, dueAt: dueIn(0) });
  // Between the calls of a session the worker runs no timers; the next call posts those that wait.
  if (callState.active) post("timer", lastId, 0);
}

function runTask(): void {
  const run = tasks[nextTask];
  nextTask += 1;
  if (nextTask < tasks.length) startTaskTimer();
  else forgetTasks();
  run?.();
}

function forgetTasks(): void {
  tasks = [];
  nextTask = 0;
}

/** Each task has an entry into the guest of its own, so that what the one before has promised is done by then. */
export function queueTask(run: () => void): void {
  if (!callState.active && callState.header?.goesOn !== true) return;
  if (tasks.length === 0) startTaskTimer();
  append(tasks, keepContext(run));
}

/** Past the allowance the worker is not told: it will ring for a timer that nobody waits for. */
function clear(id: unknown): void {
  if (typeof id !== "number" || !MapPrototypeDelete(timers, id)) return;
  postsThisTurn += 1;
  if (postsThisTurn <= allowance("timers") * POSTS_PER_TIMER) post("timer", id, -1);
}

/** By a fixed clock, the one that is due first; of several, the oldest: a Map is in the order of their ids. */
function firstDue(): number {
  let first = 0;
  let dueAt = Number.POSITIVE_INFINITY;
  MapPrototypeForEach(timers, (timer, id) => {
    if (timer.dueAt >= dueAt) return;
    first = id;
    dueAt = timer.dueAt;
  });
  return first;
}

/**
 * Runs a timer's callback. What it throws fails no call, as in a browser: it is logged.
 * @param rung the worker's. For a guest with a fixed clock it only says that some timer may ring: there are as many rings as timers, and
 *   which timer comes first is no matter of the real time that passed between them
 */
export function fireTimer(rung: number): void {
  const id = hasFixedTime() ? firstDue() : rung;
  const timer = MapPrototypeGet(timers, id);
  if (timer === undefined) return;
  const { intervalMs, dueAt } = timer;
  if (hasFixedTime()) moveFixedTime(dueAt);
  if (intervalMs === undefined) MapPrototypeDelete(timers, id);
  else {
    timer.dueAt = dueAt + intervalMs;
    post("timer", rung, intervalMs);
  }
  try {
    ReflectApply(timer.run, globalThis, timer.args);
  } catch (thrown) {
    reportException(thrown, "in a timer");
  }
}

/** Forgets all timers: the worker clears its own by the end of the call. */
export function clearAllTimers(): void {
  forgetTasks();
  MapPrototypeClear(timers);
}

/** The session's next call has begun: what was due between the two is due now. */
export function resumeTimers(): void {
  MapPrototypeForEach(timers, ({ dueAt }, id) => post("timer", id, MathMax(dueAt - now(), 0)));
}

const resolved = secure(new PromiseConstructor<void>((resolve) => resolve()));

function queueMicrotask(run: unknown): void {
  if (typeof run !== "function") {
    throw new TypeErrorConstructor(`queueMicrotask expected a function, got ${describeValue(run)}`);
  }
  const callback = keepContext(run as () => void);
  void PromisePrototypeThen(resolved, () => {
    try {
      ReflectApply(callback, undefined, []);
    } catch (thrown) {
      reportException(thrown, "in a microtask");
    }
  });
}

export function installTimers(): void {
  defineGlobal("setTimeout", (run: unknown, delay?: unknown, ...args: unknown[]): number =>
    start("setTimeout", run, toDelay(delay), false, args),
  );
  defineGlobal("setInterval", (run: unknown, delay?: unknown, ...args: unknown[]): number =>
    start("setInterval", run, toDelay(delay), true, args),
  );
  defineGlobal("setImmediate", (run: unknown, ...args: unknown[]): number =>
    start("setImmediate", run, 0, false, args),
  );
  defineGlobal("clearTimeout", clear);
  defineGlobal("clearInterval", clear);
  defineGlobal("clearImmediate", clear);
  defineGlobal("queueMicrotask", queueMicrotask);
}
