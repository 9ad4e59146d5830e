// The context that an AsyncLocalStorage reads, and how it follows what goes on later: callbacks of promises, timers, microtasks and
// tasks, and `await`, where the bundler has said so in the bundle's text (bundler/await-context.ts).
import { followContext } from "../timers.ts";

export type Frame = Map<object, unknown>;
export type AnyFunction = (...args: unknown[]) => unknown;

/** Where nobody has set anything: between two turns it is the current one. */
const ROOT: Frame = new Map();
let current = ROOT;

export const currentFrame = (): Frame => current;

/** @param after which frame is the current one then; the one before, if it is left out */
export function runIn(
  frame: Frame,
  run: AnyFunction,
  receiver: unknown,
  args: readonly unknown[],
  after?: () => Frame,
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

/** For what goes on in this turn. Nothing encloses it, so its end is a microtask: what comes after has frames of its own. */
export function enterFrame(frame: Frame): void {
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

/** The function, in the context that it was handed over in. */
export function bindFunction(run: unknown): unknown {
  if (typeof run !== "function") return run;
  const frame = current;
  return function bound(this: unknown, ...args: unknown[]): unknown {
    return runIn(frame, run as AnyFunction, this, args);
  };
}

// biome-ignore lint/suspicious/noThenProperty: this is how promises pass a context on
Object.defineProperty(Promise.prototype, "then", {
  value: {
    // biome-ignore lint/suspicious/noThenProperty: its name is seen
    then(this: Promise<unknown>, onFulfilled: unknown, onRejected: unknown): unknown {
      return Reflect.apply(nativeThen, this, [bindFunction(onFulfilled), bindFunction(onRejected)]);
    },
  }.then,
  writable: true,
  enumerable: false,
  configurable: true,
});
followContext(bindFunction as <Run>(run: Run) => Run);

/** The engine goes through it by itself, in turns that nobody sees: each step is taken in the caller's context. */
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

/**
 * An awaited object may have a `then` of its own, which the engine calls in a turn of its own. Read once, as by `await`.
 */
function bindThenable(value: unknown): unknown {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return value;
  if (Object.getPrototypeOf(value) === Promise.prototype) return value;
  const { then } = value as { readonly then?: unknown };
  if (typeof then !== "function") return value;
  const frame = current;
  return {
    // biome-ignore lint/suspicious/noThenProperty: it stands for one that has it
    then: (...settle: unknown[]): unknown => runIn(frame, then as AnyFunction, value, settle),
  };
}

type Result = IteratorResult<unknown>;
type Method = (value?: unknown) => Result | Promise<Result>;
type AnyIterator = { readonly [name in "next" | "return" | "throw"]?: Method };
type AnyIterable = { readonly [name: symbol]: (() => AnyIterator) | undefined };

/** As the language has it (%AsyncFromSyncIteratorPrototype%): what a plain iterator gives is awaited. */
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

/** One run of an async function: it tells where it stops and where it goes on, which is a turn with nothing around it. */
export class Activation {
  /** Of what it waits for; undefined while it runs. */
  #frame: Frame | undefined;
  /** In a turn of its own, rather than within its caller's. */
  #isAlone = false;
  #isAtYield = false;

  /** Before it waits for a value. */
  leave(value: unknown): unknown {
    const awaited = bindThenable(value);
    this.#stop();
    return awaited;
  }
  /** After it. */
  back(value: unknown): unknown {
    this.#goOn();
    return value;
  }
  /** In `catch` and `finally`, and wherever it may have waited or not. */
  caught(): void {
    if (this.#frame === undefined) return;
    if (this.#isAtYield && current !== ROOT) this.#frame = undefined;
    else this.#goOn();
  }
  /** Before a generator gives a value. Who asks for the next goes on with it in a context of his own. */
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
  /** It is over, or stops. */
  away(): void {
    if (!this.#isAlone) return;
    this.#isAlone = false;
    current = ROOT;
  }
  /** What `for await` goes through: it waits for each step. */
  each(iterable: AnyIterable): unknown {
    return this.#follow(iterable, () => this.#goOn());
  }
  /** The same for `yield*`, each step of which is asked for in a context of its own. */
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
