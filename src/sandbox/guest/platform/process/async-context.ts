// Stores the context that an AsyncLocalStorage reads, and restores it in later callbacks of promises, timers, microtasks and tasks, and
// after each `await` that the bundler has rewritten (bundler/compile/transforms/await-context.ts).
import { followContext } from "../../timers.ts";

export type ContextFrame = Map<object, unknown>;
export type AnyFunction = (...args: unknown[]) => unknown;

/** The frame in which nothing is set. It is current between two tasks. */
const ROOT: ContextFrame = new Map();
let current = ROOT;

export const currentFrame = (): ContextFrame => current;

/** @param after frame that is current afterwards; default: the frame before the call */
export function runIn(
  frame: ContextFrame,
  run: AnyFunction,
  receiver: unknown,
  args: readonly unknown[],
  after?: () => ContextFrame,
): unknown {
  const previous = current;
  current = frame;
  try {
    return Reflect.apply(run, receiver, args);
  } finally {
    if (after === undefined) current = previous;
    else enterFrame(after());
  }
}

const nativeThen = Promise.prototype.then;
const settled = Promise.resolve();
let isLeaving = false;

/** Enters a frame for the rest of this task. No scope encloses it, so a microtask ends it: later tasks have their own frames. */
export function enterFrame(frame: ContextFrame): void {
  current = frame;
  if (isLeaving || frame === ROOT) return;
  isLeaving = true;
  void Reflect.apply(nativeThen, settled, [
    () => {
      isLeaving = false;
      current = ROOT;
    },
  ]);
}

/** Returns the function bound to the current context. */
export function bindFunction(run: unknown): unknown {
  if (typeof run !== "function") return run;
  const frame = current;
  return function bound(this: unknown, ...args: unknown[]): unknown {
    return runIn(frame, run as AnyFunction, this, args);
  };
}

// biome-ignore lint/suspicious/noThenProperty: this is how promises propagate the context
Object.defineProperty(Promise.prototype, "then", {
  value: {
    // biome-ignore lint/suspicious/noThenProperty: the name of the function is observable
    then(this: Promise<unknown>, onFulfilled: unknown, onRejected: unknown): unknown {
      return Reflect.apply(nativeThen, this, [bindFunction(onFulfilled), bindFunction(onRejected)]);
    },
  }.then,
  writable: true,
  enumerable: false,
  configurable: true,
});
followContext(bindFunction as <Run>(run: Run) => Run);

/** The engine runs `Array.fromAsync` in microtasks without guest code, so each step is wrapped to run in the caller's context. */
const nativeFromAsync = Reflect.get(Array, "fromAsync") as AnyFunction;
Object.defineProperty(Array, "fromAsync", {
  value: {
    fromAsync(this: unknown, items: AnyIterable, map?: unknown, receiver?: unknown): unknown {
      const isIterable = typeof (items?.[Symbol.asyncIterator] ?? items?.[Symbol.iterator]) === "function";
      const given = isIterable && typeof items === "object" ? bindIterable(items) : items;
      return Reflect.apply(nativeFromAsync, this, [given, bindFunction(map), receiver]);
    },
  }.fromAsync,
  writable: true,
  enumerable: false,
  configurable: true,
});

/** Binds the `then` of an awaited object, which the engine calls in a separate microtask. It is read once, as `await` does. */
function bindThenable(value: unknown): unknown {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return value;
  if (Object.getPrototypeOf(value) === Promise.prototype) return value;
  const { then } = value as { readonly then?: unknown };
  if (typeof then !== "function") return value;
  const frame = current;
  return {
    // biome-ignore lint/suspicious/noThenProperty: it wraps an object that has it
    then: (...settle: unknown[]): unknown => runIn(frame, then as AnyFunction, value, settle),
  };
}

type Result = IteratorResult<unknown>;
type Method = (value?: unknown) => Result | Promise<Result>;
type AnyIterator = { readonly [name in "next" | "return" | "throw"]?: Method };
type AnyIterable = { readonly [name: symbol]: (() => AnyIterator) | undefined };

/** Awaits the values of a plain iterator, as the language does (%AsyncFromSyncIteratorPrototype%). */
function toAsync(iterator: AnyIterator): AnyIterator {
  const give = (step: () => Result, closes: boolean): Promise<Result> => {
    try {
      const { done, value } = step();
      const awaited = Promise.resolve(value);
      const onRejected = (reason: unknown): never => {
        void iterator.return?.();
        throw reason;
      };
      return awaited.then((given) => ({ done: done === true, value: given }), done || !closes ? undefined : onRejected);
    } catch (error) {
      return Promise.reject(error);
    }
  };
  const { next, return: end, throw: fail } = iterator;
  const call = (method: Method | undefined, value: unknown): Result =>
    Reflect.apply(method as Method, iterator, [value]) as Result;
  return {
    next: (value) => give(() => call(next, value), true),
    return: (value) =>
      end === undefined ? Promise.resolve({ done: true, value }) : give(() => call(end, value), false),
    throw: (value) => give(() => call(fail, value), true),
  };
}

function openIterator(iterable: AnyIterable): AnyIterator {
  const open = iterable?.[Symbol.asyncIterator];
  if (open !== undefined && open !== null) return Reflect.apply(open, iterable, []);
  const openSync = iterable?.[Symbol.iterator];
  if (typeof openSync === "function") return toAsync(Reflect.apply(openSync, iterable, []));
  throw new TypeError(`${typeof iterable === "object" ? "object" : String(iterable)} is not async iterable`);
}

function bindIterable(items: AnyIterable): object {
  const frame = current;
  let iterator: AnyIterator | undefined;
  const take = (name: "next" | "return", value: unknown): unknown => {
    const method = iterator?.[name];
    if (method === undefined) return Promise.resolve({ done: true, value });
    return runIn(frame, method as AnyFunction, iterator, [value]);
  };
  return {
    next: (value: unknown) => take("next", value),
    return: (value: unknown) => take("return", value),
    [Symbol.asyncIterator]() {
      iterator = openIterator(items);
      return this;
    },
  };
}

/** One run of an async function. It is notified where the function suspends and where it resumes in a microtask. */
export class Activation {
  /** Frame to restore after the await. Undefined while the function runs. */
  #frame: ContextFrame | undefined;
  /** True when the function runs in a microtask of its own instead of inside its caller's task. */
  #isAlone = false;
  #isAtYield = false;

  /** Called before the function awaits a value. */
  leave(value: unknown): unknown {
    const awaited = bindThenable(value);
    this.#stop();
    return awaited;
  }
  /** Called after the await. */
  back(value: unknown): unknown {
    this.#goOn();
    return value;
  }
  /** Called in `catch` and `finally`, and wherever the function may have awaited. */
  caught(): void {
    if (this.#frame === undefined) return;
    if (this.#isAtYield && current !== ROOT) this.#frame = undefined;
    else this.#goOn();
  }
  /** Called before a generator yields a value. The caller that requests the next value may do so in another context. */
  yielded(value: unknown): unknown {
    this.#stop();
    this.#isAtYield = true;
    return value;
  }
  resumed(value: unknown): unknown {
    this.#frame = undefined;
    this.#isAtYield = false;
    return value;
  }
  /** Called when the function ends or suspends. */
  away(): void {
    if (!this.#isAlone) return;
    this.#isAlone = false;
    current = ROOT;
  }
  /** Wraps the iterable of `for await`, which awaits each step. */
  each(iterable: AnyIterable): unknown {
    return this.#follow(iterable, () => this.#goOn());
  }
  /** Wraps the iterable of `yield*`. Each step may be requested in a different context. */
  all(iterable: AnyIterable): unknown {
    return this.#follow(iterable, () => undefined);
  }

  #follow(iterable: AnyIterable, before: () => void): unknown {
    const iterator = openIterator(iterable);
    const { next } = iterator;
    const take = (method: Method | undefined, args: readonly unknown[]): unknown => {
      before();
      const result = Reflect.apply(method as Method, iterator, args);
      this.#stop();
      return result;
    };
    const optional = (name: "return" | "throw"): unknown => {
      const method = iterator[name];
      return method === undefined || method === null ? undefined : (...args: unknown[]) => take(method, args);
    };
    return {
      next: (...args: unknown[]) => take(next, args),
      get return() {
        return optional("return");
      },
      get throw() {
        return optional("throw");
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }

  #stop(): void {
    this.#frame = current;
    this.#isAtYield = false;
    this.away();
  }
  #goOn(): void {
    if (this.#frame === undefined) return;
    current = this.#frame;
    this.#frame = undefined;
    this.#isAtYield = false;
    this.#isAlone = true;
  }
}
