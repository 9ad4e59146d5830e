// Implements setTimeout and the other timer functions. The worker waits, the guest stores the callbacks. A call's timers end with it,
// except in sessions.
import { allowance, callState } from "./call-state.ts";
import { now } from "./coarse-time.ts";
import { describeValue, withCode } from "./error-text.ts";
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
import { reportException } from "./uncaught-errors.ts";

interface Timer {
  readonly run: (...args: unknown[]) => void;
  readonly args: unknown[];
  readonly delayMs: number;
  /** What the timer function returned: `this` of the callback, as in Node, where callbacks call clearInterval(this). */
  handle: object | undefined;
  /** Undefined for a timer that fires once. */
  readonly intervalMs: number | undefined;
  /** It cannot be started again. */
  isCleared: boolean;
  /** Due time by the guest's clock. */
  dueAt: number;
}

const timers = new MapConstructor<number, Timer>();
let lastId = 0;
/** Longest delay in ms (HTML, timers: a signed 32-bit integer). */
const MAX_DELAY_MS = 2 ** 31 - 1;
/**
 * Maximum number of timer messages in one entry into the guest, per allowed timer. Messages stay in the worker's memory until its next
 * turn, so a loop of setTimeout and clearTimeout must not post without a limit.
 */
const POSTS_PER_TIMER = 10;
let postsThisTurn = 0;

/** Resets the count of messages. Called when the worker enters the guest, since it has read the earlier messages. */
export function beginTurn(): void {
  postsThisTurn = 0;
}

/** Wraps callbacks that run later. Set by the module for AsyncLocalStorage to restore its context. */
let keepContext = <Run>(run: Run): Run => run;

export function followContext(keep: typeof keepContext): void {
  keepContext = keep;
}

/** Wraps a callback that runs later in a task of other code. */
export const inContext = <Run>(run: Run): Run => keepContext(run);

/** Converts a delay to at least 1 ms, as in Node. A delay of 0 is reserved for setImmediate. */
function toDelay(value: unknown): number {
  const delay = typeof value === "symbol" || typeof value === "bigint" ? 0 : MathTrunc(NumberConstructor(value));
  return NumberIsNaN(delay) || delay > MAX_DELAY_MS ? 1 : MathMin(MathMax(delay, 1), MAX_DELAY_MS);
}

const dueIn = (delayMs: number): number => now() + delayMs;

function createTimer(run: unknown, delayMs: number, isRepeating: boolean, args: unknown[]): Timer {
  if (typeof run !== "function") {
    const text = `The "callback" argument must be of type function. Received ${describeValue(run)}`;
    throw withCode(new TypeErrorConstructor(text), "ERR_INVALID_ARG_TYPE");
  }
  const intervalMs = isRepeating ? delayMs : undefined;
  return {
    run: keepContext(run as Timer["run"]),
    args,
    delayMs,
    // Its own from the beginning: a setter of a polluted Object.prototype would get this object.
    handle: undefined,
    intervalMs,
    isCleared: false,
    dueAt: 0,
  };
}

/** Starts a timer, or starts it again. Returns 0 if no call is running. */
function schedule(name: string, timer: Timer, knownId?: number): number {
  if (!callState.active) return 0;
  const maxTimers = allowance("timers");
  postsThisTurn += 1;
  const isPending = knownId !== undefined && MapPrototypeGet(timers, knownId) !== undefined;
  const isFull = !isPending && MapPrototypeGetSize(timers) >= maxTimers;
  if (isFull || postsThisTurn > maxTimers * POSTS_PER_TIMER)
    throw new RangeErrorConstructor(`${name}: at most ${maxTimers} timers may be pending at the same time`);
  lastId += Number(knownId === undefined);
  const id = knownId ?? lastId;
  timer.dueAt = dueIn(timer.delayMs);
  MapPrototypeSet(timers, id, timer);
  post("timer", id, timer.delayMs);
  return id;
}

/** Starts a timer for platform code, because a tool may have replaced `setTimeout`. */
export function startTimer(name: string, delay: unknown, run: () => void): void {
  schedule(name, createTimer(run, toDelay(delay), false, []));
}

/** What the timer functions return, as in Node. No timer keeps a call alive, so `ref()` and `unref()` have no effect. */
class Immediate {
  readonly #id: number;
  #isReferenced = true;

  constructor(id: number) {
    this.#id = id;
  }
  ref(): this {
    this.#isReferenced = true;
    return this;
  }
  unref(): this {
    this.#isReferenced = false;
    return this;
  }
  hasRef(): boolean {
    return this.#isReferenced;
  }
  [Symbol.toPrimitive](): number {
    return this.#id;
  }
  [Symbol.dispose](): void {
    clear(this.#id);
  }
  /** Returns the timer's id, or undefined for another object. */
  static idOf(value: object): number | undefined {
    return #id in value ? value.#id : undefined;
  }
}
const { idOf } = Immediate;

class Timeout extends Immediate {
  readonly #timer: Timer;

  constructor(name: string, timer: Timer) {
    super(schedule(name, timer));
    this.#timer = timer;
    timer.handle = this;
  }
  /** Starts the timer again with its delay, unless it was cleared. */
  refresh(): this {
    const id = idOf(this) ?? 0;
    if (id > 0 && !this.#timer.isCleared) schedule("refresh", this.#timer, id);
    return this;
  }
  close(): this {
    clear(this);
    return this;
  }
  /** Returns what is kept of a timer, also after it has fired; undefined for another value. */
  static timerOf(value: unknown): Timer | undefined {
    return typeof value === "object" && value !== null && #timer in value ? value.#timer : undefined;
  }
}
const { timerOf } = Timeout;

/** Queued tasks (HTML, "queue a task"), in order. Those before `nextTask` have run. */
let tasks: (() => void)[] = [];
let nextTask = 0;

/** Starts the timer of the task queue. It does not count towards the limit, because there is only one. */
function startTaskTimer(): void {
  lastId += 1;
  const timer: Timer = {
    run: runTask,
    args: [],
    delayMs: 0,
    handle: undefined,
    intervalMs: undefined,
    isCleared: false,
    dueAt: dueIn(0),
  };
  MapPrototypeSet(timers, lastId, timer);
  // Between the calls of a session the worker runs no timers. The next call posts the pending ones again.
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

/**
 * Queues a task. Each task runs in its own entry into the guest, so microtasks of the previous task run before it.
 * @returns false if no call is running, so that the task is dropped
 */
export function queueTask(run: () => void): boolean {
  if (!callState.active && callState.header?.isContinued !== true) return false;
  if (tasks.length === 0) startTaskTimer();
  append(tasks, keepContext(run));
  return true;
}

/** Reads a timer, its id, or the id as text. Returns 0 for anything else. */
function toId(given: unknown): number {
  if (typeof given === "object" && given !== null) return idOf(given) ?? 0;
  return typeof given === "number" || typeof given === "string" ? NumberConstructor(given) : 0;
}

/** Clears a timer. Beyond the message limit the worker is not notified; its later `timer` message is then ignored. */
function clear(given: unknown): void {
  const id = toId(given);
  const timer = timerOf(given) ?? MapPrototypeGet(timers, id);
  if (timer !== undefined) timer.isCleared = true;
  if (!MapPrototypeDelete(timers, id)) return;
  postsThisTurn += 1;
  if (postsThisTurn <= allowance("timers") * POSTS_PER_TIMER) post("timer", id, -1);
}

/** Runs a timer's callback. As in a browser, an error in it does not fail the call and is reported. */
export function fireTimer(id: number): void {
  const timer = MapPrototypeGet(timers, id);
  if (timer === undefined) return;
  const { intervalMs, dueAt } = timer;
  if (intervalMs === undefined) MapPrototypeDelete(timers, id);
  else {
    timer.dueAt = dueAt + intervalMs;
    post("timer", id, intervalMs);
  }
  try {
    ReflectApply(timer.run, timer.handle ?? globalThis, timer.args);
  } catch (thrown) {
    reportException(thrown, "in a timer");
  }
}

/** Forgets all timers. The worker clears its own timers at the end of the call. */
export function clearAllTimers(): void {
  forgetTasks();
  // Clearing allocates a new table, also if there is nothing to clear.
  if (MapPrototypeGetSize(timers) > 0) MapPrototypeClear(timers);
}

/** Posts the pending timers again when the session's next call starts. Those that were due in between fire at once. */
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

/** The functions that node:timers/promises has a variant of. */
export const promisedTimers = {
  setTimeout: (run: unknown, delay?: unknown, ...args: unknown[]): Timeout =>
    new Timeout("setTimeout", createTimer(run, toDelay(delay), false, args)),
  setImmediate: (run: unknown, ...args: unknown[]): Immediate => {
    const timer = createTimer(run, 0, false, args);
    const made = new Immediate(schedule("setImmediate", timer));
    timer.handle = made;
    return made;
  },
};

export function installTimers(): void {
  defineGlobal("setTimeout", promisedTimers.setTimeout);
  defineGlobal(
    "setInterval",
    (run: unknown, delay?: unknown, ...args: unknown[]) =>
      new Timeout("setInterval", createTimer(run, toDelay(delay), true, args)),
  );
  defineGlobal("setImmediate", promisedTimers.setImmediate);
  defineGlobal("clearTimeout", clear);
  defineGlobal("clearInterval", clear);
  defineGlobal("clearImmediate", clear);
  defineGlobal("queueMicrotask", queueMicrotask);
}
