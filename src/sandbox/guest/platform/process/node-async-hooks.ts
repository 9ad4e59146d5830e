// node:async_hooks (AsyncLocalStorage and AsyncResource) and node:diagnostics_channel. async-context.ts propagates the context.

import { ACTIVATION_EXPORT } from "../../../contract/node-builtins.ts";
import { nameClasses } from "../shared/class-names.ts";
import { checkFunction, nodeError } from "../shared/node-error.ts";
import { unsupportedMembers } from "../shared/unsupported-members.ts";
import { Activation, type AnyFunction, type ContextFrame, currentFrame, enterFrame, runIn } from "./async-context.ts";

export class AsyncLocalStorage {
  readonly #defaultValue: unknown;
  readonly name: string;

  constructor(options: { readonly defaultValue?: unknown; readonly name?: string } = {}) {
    this.#defaultValue = options.defaultValue;
    this.name = options.name === undefined ? "" : String(options.name);
  }

  static bind(run: AnyFunction): unknown {
    return AsyncResource.bind(run);
  }
  static snapshot(): (run: AnyFunction, ...args: unknown[]) => unknown {
    return AsyncResource.bind((run, ...args) => (run as AnyFunction)(...args));
  }

  getStore(): unknown {
    const frame = currentFrame();
    return frame.has(this) ? frame.get(this) : this.#defaultValue;
  }
  /** Changes that `run` makes to other storages persist, as in Node. */
  run(store: unknown, run: AnyFunction, ...args: unknown[]): unknown {
    const prior = this.getStore();
    if (Object.is(prior, store)) return Reflect.apply(run, null, args);
    const outer = currentFrame();
    const inner = this.#with(store);
    return runIn(inner, run, null, args, () => (currentFrame() === inner ? outer : this.#with(prior)));
  }
  exit(run: AnyFunction, ...args: unknown[]): unknown {
    return this.run(undefined, run, ...args);
  }
  enterWith(store: unknown): void {
    enterFrame(this.#with(store));
  }
  withScope(store: unknown): Disposable {
    const prior = this.getStore();
    this.enterWith(store);
    let isOver = false;
    return {
      [Symbol.dispose]: () => {
        if (!isOver) this.enterWith(prior);
        isOver = true;
      },
    };
  }
  /** Removes the store from the current context. In other contexts it stays. */
  disable(): void {
    currentFrame().delete(this);
  }

  #with(store: unknown): ContextFrame {
    return new Map(currentFrame()).set(this, store);
  }
}

let lastId = 1;

export class AsyncResource {
  readonly #frame: ContextFrame = currentFrame();
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
    const bound = function (this: unknown, ...args: unknown[]): unknown {
      return runIn(frame, run, receiver === undefined ? this : receiver, args);
    };
    return Object.defineProperty(bound, "length", { value: run.length, writable: false, configurable: true });
  }
  static bind(run: AnyFunction, type?: string, receiver?: unknown): AnyFunction {
    checkFunction(run, "fn");
    return new AsyncResource(type || run.name || "bound-anonymous-fn").bind(run, receiver);
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

nameClasses({ AsyncResource });

export const builtins = {
  [ACTIVATION_EXPORT]: Activation,
  async_hooks: {
    AsyncLocalStorage,
    AsyncResource,
    asyncWrapProviders: {},
    /** Hooks are never called, because a guest has no such resources. */
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
    ...unsupportedMembers("diagnostics_channel", "use channel()", "BoundedChannel boundedChannel"),
  },
};
