// Functions of node:events that wait for an event or listen for an abort: once(), on() and addAbortListener().
import { checkFunction, invalidArgument, nodeError } from "../shared/node-error.ts";

export type EventName = string | symbol;
export type Listener = ((...args: unknown[]) => unknown) & { listener?: Listener };
interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: string, listener: () => void, options?: { readonly once?: boolean }): void;
  removeEventListener(type: string, listener: () => void): void;
}
interface EventTargetLike {
  addEventListener(type: string, listener: Listener, options?: object): void;
  removeEventListener(type: string, listener: Listener, options?: object): void;
}

export interface Emitter {
  _events: { [name: EventName]: Listener[] | undefined } | undefined;
  _eventsCount: number;
  _maxListeners: number | undefined;
  [method: string | symbol]: unknown;
  on(name: EventName, listener: Listener): Emitter;
  once(name: EventName, listener: Listener): Emitter;
  emit(name: EventName, ...args: unknown[]): boolean;
  removeListener(name: EventName, listener: Listener): Emitter;
  listenerCount(name: EventName, listener?: Listener): number;
  listeners(name: EventName): Listener[];
  getMaxListeners(): number;
}

export const isEmitter = (value: unknown): value is Emitter =>
  typeof (value as Emitter | undefined | null)?.on === "function";
const isTarget = (value: unknown): value is EventTargetLike =>
  typeof (value as EventTargetLike | undefined | null)?.addEventListener === "function";

function abortError(signal: AbortSignalLike): Error {
  const error = nodeError(Error, "ABORT_ERR", "The operation was aborted");
  return Object.assign(error, { name: "AbortError", cause: signal.reason });
}

function listen(emitter: unknown, name: EventName, listener: Listener, isOnce: boolean): () => void {
  if (isEmitter(emitter)) {
    if (isOnce) emitter.once(name, listener);
    else emitter.on(name, listener);
    return () => emitter.removeListener(name, listener);
  }
  if (!isTarget(emitter)) throw invalidArgument("emitter", "an instance of EventEmitter", emitter);
  emitter.addEventListener(String(name), listener, { once: isOnce });
  return () => emitter.removeEventListener(String(name), listener);
}

interface WaitOptions {
  readonly signal?: AbortSignalLike;
  readonly close?: readonly EventName[];
}

/** Resolves with the arguments of the event's next occurrence. */
export function once(emitter: unknown, name: EventName, options: WaitOptions = {}): Promise<unknown[]> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) throw abortError(signal);
    const ends: (() => void)[] = [];
    const end = (): void => {
      for (const run of ends.splice(0)) run();
    };
    const settle =
      <Args extends unknown[]>(how: (...args: Args) => void) =>
      (...args: Args): void => {
        end();
        how(...args);
      };
    ends.push(
      listen(
        emitter,
        name,
        settle((...args: unknown[]) => resolve(args)),
        true,
      ),
    );
    if (name !== "error" && isEmitter(emitter)) ends.push(listen(emitter, "error", settle(reject) as Listener, true));
    if (signal !== undefined) {
      const onAbort = settle(() => reject(abortError(signal)));
      signal.addEventListener("abort", onAbort, { once: true });
      ends.push(() => signal.removeEventListener("abort", onAbort));
    }
  });
}

/** Iterates over the occurrences of an event. Occurrences are buffered until they are read. */
export function on(emitter: unknown, name: EventName, options: WaitOptions = {}): AsyncIterableIterator<unknown[]> {
  const { signal } = options;
  if (signal?.aborted) throw abortError(signal);
  type Waiting = {
    readonly resolve: (result: IteratorResult<unknown[]>) => void;
    readonly reject: (e: unknown) => void;
  };
  const seen: unknown[][] = [];
  const waiting: Waiting[] = [];
  const ends: (() => void)[] = [];
  let failure: { readonly error: unknown } | undefined;
  let finished = false;
  const finish = (): void => {
    finished = true;
    for (const run of ends.splice(0)) run();
    for (const { resolve } of waiting.splice(0)) resolve({ value: undefined, done: true });
  };
  const fail = (error: unknown): void => {
    const first = waiting.shift();
    if (first === undefined) failure = { error };
    else first.reject(error);
    finish();
  };
  ends.push(
    listen(
      emitter,
      name,
      (...args) => {
        const first = waiting.shift();
        if (first === undefined) seen.push(args);
        else first.resolve({ value: args, done: false });
      },
      false,
    ),
  );
  if (name !== "error" && isEmitter(emitter)) ends.push(listen(emitter, "error", fail as Listener, false));
  for (const close of options.close ?? []) ends.push(listen(emitter, close, finish as Listener, false));
  if (signal !== undefined) {
    const onAbort = (): void => fail(abortError(signal));
    signal.addEventListener("abort", onAbort, { once: true });
    ends.push(() => signal.removeEventListener("abort", onAbort));
  }
  return {
    next() {
      const value = seen.shift();
      if (value !== undefined) return Promise.resolve({ value, done: false });
      if (failure !== undefined) {
        const { error } = failure;
        failure = undefined;
        return Promise.reject(error);
      }
      if (finished) return Promise.resolve({ value: undefined, done: true });
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    return() {
      finish();
      return Promise.resolve({ value: undefined, done: true });
    },
    throw(error: unknown) {
      fail(error);
      return Promise.resolve({ value: undefined, done: true });
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/** Returns a Disposable that removes the listener. */
export function addAbortListener(signal: AbortSignalLike, listener: () => void): Disposable {
  if (typeof signal?.addEventListener !== "function")
    throw invalidArgument("signal", "an instance of AbortSignal", signal);
  checkFunction(listener, "listener");
  if (signal.aborted) queueMicrotask(() => listener());
  else signal.addEventListener("abort", listener, { once: true });
  return { [Symbol.dispose]: () => signal.removeEventListener("abort", listener) };
}
