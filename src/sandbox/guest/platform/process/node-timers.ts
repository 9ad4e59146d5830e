// node:timers and node:timers/promises, over the global functions.
import { invalidArgument, nodeError } from "../shared/node-error.ts";

type Callback = (...args: unknown[]) => void;
interface Timer {
  unref(): this;
}
interface TimerFunctions {
  setTimeout(run: Callback, delay?: number, ...args: unknown[]): Timer;
  setInterval(run: Callback, delay?: number, ...args: unknown[]): Timer;
  setImmediate(run: Callback, ...args: unknown[]): Timer;
  clearTimeout(timer: unknown): void;
  clearInterval(timer: unknown): void;
  clearImmediate(timer: unknown): void;
}
interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: string, listener: () => void, options?: object): void;
  removeEventListener(type: string, listener: () => void): void;
}
interface WaitOptions {
  readonly signal?: AbortSignalLike;
  readonly ref?: boolean;
}

const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate } =
  globalThis as unknown as TimerFunctions;

function abortError(signal: AbortSignalLike): Error {
  const error = nodeError(Error, "ABORT_ERR", "The operation was aborted");
  return Object.assign(error, { name: "AbortError", cause: signal.reason });
}

function wait<Value>(start: (run: () => void) => Timer, value: Value, { signal }: WaitOptions = {}): Promise<Value> {
  if (signal !== undefined && typeof signal?.addEventListener !== "function") {
    return Promise.reject(invalidArgument("options.signal", "an instance of AbortSignal", signal));
  }
  if (signal?.aborted) return Promise.reject(abortError(signal));
  return new Promise((resolve, reject) => {
    const id = start(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve(value);
    });
    const onAbort = (): void => {
      clearTimeout(id);
      if (signal !== undefined) reject(abortError(signal));
    };
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

const sleep = <Value>(delay?: number, value?: Value, options?: WaitOptions): Promise<Value | undefined> =>
  wait((run) => setTimeout(run, delay), value, options);
const turn = <Value>(value?: Value, options?: WaitOptions): Promise<Value | undefined> =>
  wait((run) => setImmediate(run), value, options);

async function* ticks<Value>(delay?: number, value?: Value, options?: WaitOptions): AsyncGenerator<Value | undefined> {
  for (;;) yield await sleep(delay, value, options);
}

export const promises = {
  setTimeout: sleep,
  setImmediate: turn,
  setInterval: ticks,
  scheduler: {
    wait: (delay?: number, options?: WaitOptions) => sleep(delay, undefined, options),
    yield: () => turn(),
  },
};

const timers = {
  setTimeout,
  clearTimeout,
  setImmediate,
  clearImmediate,
  setInterval,
  clearInterval,
  promises,
};

export const builtins = { timers, "timers/promises": promises };
