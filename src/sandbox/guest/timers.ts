// setTimeout and its kin. The worker keeps the clock; the guest keeps the callbacks. All of a call's timers end with it.
import { allowance, callState } from "./call-state.ts";
import { writeLog } from "./console.ts";
import { describeValue } from "./error-text.ts";
import { post } from "./host.ts";
import { inspect } from "./inspect.ts";
import {
  append,
  defineGlobal,
  MapConstructor,
  MapPrototypeClear,
  MapPrototypeDelete,
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
  TypeErrorConstructor,
} from "./primordials.ts";

interface Timer {
  readonly run: (...args: unknown[]) => void;
  readonly args: readonly unknown[];
  /** Undefined for a timer that fires once. */
  readonly intervalMs: number | undefined;
}

const timers = new MapConstructor<number, Timer>();
let lastId = 0;
/** The longest delay of the platform (HTML, timers: a signed 32-bit integer). */
const MAX_DELAY_MS = 2 ** 31 - 1;

function toDelay(value: unknown): number {
  const delay = typeof value === "symbol" || typeof value === "bigint" ? 0 : MathTrunc(NumberConstructor(value));
  return NumberIsNaN(delay) || delay > MAX_DELAY_MS ? 0 : MathMin(MathMax(delay, 0), MAX_DELAY_MS);
}

function start(name: string, run: unknown, delay: unknown, repeat: boolean, args: readonly unknown[]): number {
  if (typeof run !== "function") {
    throw new TypeErrorConstructor(`${name} expected a function, got ${describeValue(run)}`);
  }
  if (!callState.active) return 0;
  const cap = allowance("timers");
  if (MapPrototypeGetSize(timers) >= cap) {
    throw new RangeErrorConstructor(`${name}: this call may have ${cap} timers waiting at one time`);
  }
  const delayMs = toDelay(delay);
  lastId += 1;
  MapPrototypeSet(timers, lastId, {
    run: run as Timer["run"],
    args,
    intervalMs: repeat ? MathMax(delayMs, 1) : undefined,
  });
  post("timer", lastId, delayMs);
  return lastId;
}

function clear(id: unknown): void {
  if (typeof id === "number" && MapPrototypeDelete(timers, id)) post("timer", id, -1);
}

/** Runs a timer's callback. What it throws fails no call, as in a browser: it is logged. */
export function fireTimer(id: number): void {
  const timer = MapPrototypeGet(timers, id);
  if (timer === undefined) return;
  if (timer.intervalMs === undefined) MapPrototypeDelete(timers, id);
  else post("timer", id, timer.intervalMs);
  try {
    ReflectApply(timer.run, globalThis, timer.args as unknown[]);
  } catch (thrown) {
    writeLog("error", `Uncaught in a timer: ${inspect(thrown, 4_096)}`);
  }
}

/** Forgets all timers: the worker clears its own by the end of the call. */
export function clearAllTimers(): void {
  MapPrototypeClear(timers);
}

const resolved = new PromiseConstructor<void>((resolve) => resolve());

const globals: { readonly [name: string]: (...args: never[]) => unknown } = {
  setTimeout: (run: unknown, delay?: unknown, ...args: unknown[]): number =>
    start("setTimeout", run, delay, false, args),
  setInterval: (run: unknown, delay?: unknown, ...args: unknown[]): number =>
    start("setInterval", run, delay, true, args),
  setImmediate: (run: unknown, ...args: unknown[]): number => start("setImmediate", run, 0, false, args),
  clearTimeout: clear,
  clearInterval: clear,
  clearImmediate: clear,
  queueMicrotask: (run: unknown): void => {
    if (typeof run !== "function") {
      throw new TypeErrorConstructor(`queueMicrotask expected a function, got ${describeValue(run)}`);
    }
    PromisePrototypeThen(resolved, () => {
      ReflectApply(run as () => void, undefined, []);
    });
  },
};

export function installTimers(): void {
  const names: string[] = [];
  for (const name in globals) append(names, name);
  for (let index = 0; index < names.length; index += 1) {
    const name = names[index] as string;
    defineGlobal(name, globals[name]);
  }
}
