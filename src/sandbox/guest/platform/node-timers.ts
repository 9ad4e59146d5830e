// node:timers and node:timers/promises. These timers are objects, as in Node. The global functions return numbers, as on the web.
import { checkFunction, invalidArgument, nodeError } from "./node-error.ts";

type Callback = (...args: unknown[]) => void;
interface WebTimers {
  setTimeout(run: Callback, delay?: number, ...args: unknown[]): number;
  setInterval(run: Callback, delay?: number, ...args: unknown[]): number;
  setImmediate(run: Callback, ...args: unknown[]): number;
  clearTimeout(id: unknown): void;
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

const web = globalThis as unknown as WebTimers;

/** No timer keeps a call alive, so `ref` and `unref` have no effect. */
class Timeout {
  #id: number;
  readonly #start: () => number;
  #isReferenced = true;

  constructor(start: () => number) {
    this.#start = start;
    this.#id = start();
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
  refresh(): this {
    web.clearTimeout(this.#id);
    this.#id = this.#start();
    return this;
  }
  close(): this {
    web.clearTimeout(this.#id);
    return this;
  }
  [Symbol.toPrimitive](): number {
    return this.#id;
  }
  [Symbol.dispose](): void {
    this.close();
  }
}

function setTimeout(run: unknown, delay?: number, ...args: unknown[]): Timeout {
  checkFunction(run, "callback");
  return new Timeout(() => web.setTimeout(run, delay, ...args));
}

function setInterval(run: unknown, delay?: number, ...args: unknown[]): Timeout {
  checkFunction(run, "callback");
  return new Timeout(() => web.setInterval(run, delay, ...args));
}

function setImmediate(run: unknown, ...args: unknown[]): Timeout {
  checkFunction(run, "callback");
  return new Timeout(() => web.setImmediate(run, ...args));
}

function clear(timer: unknown): void {
  if (timer instanceof Timeout) timer.close();
  else web.clearTimeout(timer);
}

function abortError(signal: AbortSignalLike): Error {
  const error = nodeError(Error, "ABORT_ERR", "The operation was aborted");
  return Object.assign(error, { name: "AbortError", cause: signal.reason });
}

function wait<Value>(start: (run: () => void) => number, value: Value, { signal }: WaitOptions = {}): Promise<Value> {
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
      web.clearTimeout(id);
      if (signal !== undefined) reject(abortError(signal));
    };
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

const sleep = <Value>(delay?: number, value?: Value, options?: WaitOptions): Promise<Value | undefined> =>
  wait((run) => web.setTimeout(run, delay), value, options);
const turn = <Value>(value?: Value, options?: WaitOptions): Promise<Value | undefined> =>
  wait((run) => web.setImmediate(run), value, options);

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

const custom = Symbol.for("nodejs.util.promisify.custom");
Object.defineProperty(setTimeout, custom, { value: sleep, enumerable: true });
Object.defineProperty(setImmediate, custom, { value: turn, enumerable: true });

const timers = {
  setTimeout,
  clearTimeout: clear,
  setImmediate,
  clearImmediate: clear,
  setInterval,
  clearInterval: clear,
  promises,
};

export const builtins = { timers, "timers/promises": promises };
