// node:async_hooks (AsyncLocalStorage and AsyncResource) and node:diagnostics_channel. A context follows every callback of a promise, a
// timer or a microtask, from where it was handed over; an `await` is such a callback only where the bundler has written it as one.
import { checkFunction, nodeError } from "./node-error.ts";

type Frame = ReadonlyMap<object, unknown>;
type AnyFunction = (...args: unknown[]) => unknown;

let current: Frame = new Map();

function runIn<Result>(frame: Frame, run: AnyFunction, receiver: unknown, args: readonly unknown[]): Result {
  const previous = current;
  current = frame;
  try {
    return Reflect.apply(run, receiver, args) as Result;
  } finally {
    current = previous;
  }
}

/** The function, in the context that it was handed over in. */
function bindFunction(run: unknown): unknown {
  if (typeof run !== "function" || current.size === 0) return run;
  const frame = current;
  return function bound(this: unknown, ...args: unknown[]): unknown {
    return runIn(frame, run as AnyFunction, this, args);
  };
}

/** The functions that keep a callback for later, each with how many of their first arguments may be one. */
function patch(target: object, name: string, callbacks: number): void {
  const original = Reflect.get(target, name) as unknown;
  if (typeof original !== "function") return;
  const patched = {
    [name](this: unknown, ...args: unknown[]): unknown {
      for (let index = 0; index < callbacks && index < args.length; index += 1) args[index] = bindFunction(args[index]);
      return Reflect.apply(original, this, args);
    },
  }[name];
  Object.defineProperty(target, name, { value: patched, writable: true, enumerable: false, configurable: true });
}

patch(Promise.prototype, "then", 2);
for (const name of ["setTimeout", "setInterval", "setImmediate", "queueMicrotask"]) patch(globalThis, name, 1);

export class AsyncLocalStorage {
  readonly #defaultValue: unknown;
  readonly name: string;
  #disabled = false;

  constructor(options: { readonly defaultValue?: unknown; readonly name?: string } = {}) {
    this.#defaultValue = options.defaultValue;
    this.name = options.name ?? "";
  }

  static bind(run: AnyFunction): unknown {
    return AsyncResource.bind(run);
  }
  static snapshot(): (run: AnyFunction, ...args: unknown[]) => unknown {
    const frame = current;
    return (run, ...args) => runIn(frame, run, undefined, args);
  }

  getStore(): unknown {
    return this.#disabled || !current.has(this) ? this.#defaultValue : current.get(this);
  }
  run(store: unknown, run: AnyFunction, ...args: unknown[]): unknown {
    this.#disabled = false;
    return runIn(new Map(current).set(this, store), run, undefined, args);
  }
  exit(run: AnyFunction, ...args: unknown[]): unknown {
    const frame = new Map(current);
    frame.delete(this);
    return runIn(frame, run, undefined, args);
  }
  enterWith(store: unknown): void {
    this.#disabled = false;
    current = new Map(current).set(this, store);
  }
  withScope(store: unknown): Disposable {
    const previous = current;
    this.enterWith(store);
    return {
      [Symbol.dispose]: () => {
        current = previous;
      },
    };
  }
  disable(): void {
    this.#disabled = true;
  }
}

let lastId = 1;

export class AsyncResource {
  readonly #frame: Frame = current;
  readonly #id: number;
  readonly type: string;

  constructor(type: string) {
    if (typeof type !== "string")
      throw nodeError(TypeError, "ERR_INVALID_ARG_TYPE", 'The "type" argument must be of type string');
    lastId += 1;
    this.#id = lastId;
    this.type = type;
  }
  runInAsyncScope(run: AnyFunction, receiver?: unknown, ...args: unknown[]): unknown {
    return runIn(this.#frame, run, receiver, args);
  }
  emitDestroy(): this {
    return this;
  }
  asyncId(): number {
    return this.#id;
  }
  triggerAsyncId(): number {
    return 1;
  }
  bind(run: AnyFunction, receiver?: unknown): AnyFunction {
    checkFunction(run, "fn");
    const frame = this.#frame;
    return function bound(this: unknown, ...args: unknown[]): unknown {
      return runIn(frame, run, receiver ?? this, args);
    };
  }
  static bind(run: AnyFunction, type?: string, receiver?: unknown): AnyFunction {
    return new AsyncResource(type ?? (run.name || "bound-anonymous-fn")).bind(run, receiver);
  }
}

type Subscriber = (message: unknown, name: string | symbol) => void;

class Channel {
  readonly name: string | symbol;
  #subscribers: Subscriber[] = [];
  readonly #stores = new Map<AsyncLocalStorage, ((data: unknown) => unknown) | undefined>();

  constructor(name: string | symbol) {
    this.name = name;
  }
  get hasSubscribers(): boolean {
    return this.#subscribers.length > 0 || this.#stores.size > 0;
  }
  subscribe(subscriber: Subscriber): void {
    checkFunction(subscriber, "subscription");
    this.#subscribers = [...this.#subscribers, subscriber];
  }
  unsubscribe(subscriber: Subscriber): boolean {
    const left = this.#subscribers.filter((one) => one !== subscriber);
    const found = left.length < this.#subscribers.length;
    this.#subscribers = left;
    return found;
  }
  bindStore(store: AsyncLocalStorage, transform?: (data: unknown) => unknown): void {
    this.#stores.set(store, transform);
  }
  unbindStore(store: AsyncLocalStorage): boolean {
    return this.#stores.delete(store);
  }
  publish(message: unknown): void {
    for (const subscriber of this.#subscribers) subscriber(message, this.name);
  }
  runStores(message: unknown, run: AnyFunction, receiver?: unknown, ...args: unknown[]): unknown {
    let inner = (): unknown => {
      this.publish(message);
      return Reflect.apply(run, receiver, args);
    };
    for (const [store, transform] of this.#stores) {
      const next = inner;
      inner = () => store.run(transform === undefined ? message : transform(message), next);
    }
    return inner();
  }
}

const channels = new Map<string | symbol, Channel>();

function channel(name: string | symbol): Channel {
  const known = channels.get(name) ?? new Channel(name);
  channels.set(name, known);
  return known;
}

const PHASES = ["start", "end", "asyncStart", "asyncEnd", "error"] as const;
type Phases = { readonly [Phase in (typeof PHASES)[number]]: Channel };

class TracingChannel {
  readonly start: Channel;
  readonly end: Channel;
  readonly asyncStart: Channel;
  readonly asyncEnd: Channel;
  readonly error: Channel;

  constructor(given: string | Phases) {
    const phase = (name: (typeof PHASES)[number]): Channel =>
      typeof given === "string" ? channel(`tracing:${given}:${name}`) : given[name];
    this.start = phase("start");
    this.end = phase("end");
    this.asyncStart = phase("asyncStart");
    this.asyncEnd = phase("asyncEnd");
    this.error = phase("error");
  }
  get hasSubscribers(): boolean {
    return PHASES.some((phase) => this[phase].hasSubscribers);
  }
  subscribe(handlers: { readonly [phase: string]: Subscriber }): void {
    for (const phase of PHASES) if (handlers[phase] !== undefined) this[phase].subscribe(handlers[phase]);
  }
  unsubscribe(handlers: { readonly [phase: string]: Subscriber }): boolean {
    return PHASES.every((phase) => handlers[phase] === undefined || this[phase].unsubscribe(handlers[phase]));
  }
  traceSync(
    run: AnyFunction,
    context: { [name: string]: unknown } = {},
    receiver?: unknown,
    ...args: unknown[]
  ): unknown {
    return this.start.runStores(context, () => {
      try {
        context.result = Reflect.apply(run, receiver, args);
        return context.result;
      } catch (error) {
        context.error = error;
        this.error.publish(context);
        throw error;
      } finally {
        this.end.publish(context);
      }
    });
  }
  tracePromise(
    run: AnyFunction,
    context: { [name: string]: unknown } = {},
    receiver?: unknown,
    ...args: unknown[]
  ): unknown {
    return this.start.runStores(context, () => {
      const settle = (name: "result" | "error") => (value: unknown) => {
        context[name] = value;
        if (name === "error") this.error.publish(context);
        this.asyncStart.publish(context);
        this.asyncEnd.publish(context);
        if (name === "error") throw value;
        return value;
      };
      try {
        return Promise.resolve(Reflect.apply(run, receiver, args)).then(settle("result"), settle("error"));
      } finally {
        this.end.publish(context);
      }
    });
  }
}

interface Hook {
  enable(): Hook;
  disable(): Hook;
}
const hook: Hook = { enable: () => hook, disable: () => hook };

export const builtins = {
  async_hooks: {
    AsyncLocalStorage,
    AsyncResource,
    asyncWrapProviders: {},
    /** Nothing is told of: there are no such resources here. */
    createHook: (): Hook => hook,
    executionAsyncId: (): number => 1,
    executionAsyncResource: (): object => ({}),
    triggerAsyncId: (): number => 0,
  },
  diagnostics_channel: {
    Channel,
    channel,
    hasSubscribers: (name: string | symbol): boolean => channels.get(name)?.hasSubscribers ?? false,
    subscribe: (name: string | symbol, subscriber: Subscriber): void => channel(name).subscribe(subscriber),
    unsubscribe: (name: string | symbol, subscriber: Subscriber): boolean => channel(name).unsubscribe(subscriber),
    tracingChannel: (given: string | Phases): TracingChannel => new TracingChannel(given),
  },
};
