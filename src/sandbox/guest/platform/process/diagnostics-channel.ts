// node:diagnostics_channel: named channels, pairs of channels around a call (BoundedChannel) and the five channels of a traced call. Node's order
// of messages is kept.
import { nameClasses } from "../shared/class-names.ts";
import { checkFunction, invalidArgument } from "../shared/node-error.ts";
import { types } from "../util/value-types.ts";
import type { AnyFunction } from "./async-context.ts";

type Name = string | symbol;
type Subscriber = (message: unknown, name: Name) => void;
type Transform = (data: unknown) => unknown;
type Context = { [name: string]: unknown };

/** What a channel uses of an AsyncLocalStorage. */
interface Store {
  withScope(value: unknown): Disposable;
}
declare const process: { emitWarning(warning: string): void };
declare function queueMicrotask(run: () => void): void;

/** A subscriber that throws does not disturb the publisher. */
function throwLater(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}

const channels = new Map<Name, Channel>();

export class Channel {
  readonly name: Name;
  #subscribers: readonly Subscriber[] = [];
  readonly #stores = new Map<Store, Transform | undefined>();

  constructor(name: Name) {
    this.name = name;
    channels.set(name, this);
  }
  get hasSubscribers(): boolean {
    return this.#subscribers.length > 0 || this.#stores.size > 0;
  }
  subscribe(subscriber: Subscriber): void {
    checkFunction(subscriber, "subscription");
    this.#subscribers = [...this.#subscribers, subscriber];
  }
  unsubscribe(subscriber: Subscriber): boolean {
    const index = this.#subscribers.indexOf(subscriber);
    if (index === -1) return false;
    this.#subscribers = this.#subscribers.toSpliced(index, 1);
    return true;
  }
  bindStore(store: Store, transform?: Transform): void {
    this.#stores.set(store, transform);
  }
  unbindStore(store: Store): boolean {
    return this.#stores.delete(store);
  }
  publish(message: unknown): void {
    for (const subscriber of this.#subscribers) {
      try {
        subscriber(message, this.name);
      } catch (error) {
        throwLater(error);
      }
    }
  }
  /** Sets the bound stores and publishes. Disposing the scope resets the stores. */
  withStoreScope(data: unknown): Disposable {
    const scopes = [...this.#stores].flatMap(([store, transform]) => {
      try {
        return [store.withScope(transform === undefined ? data : transform(data))];
      } catch (error) {
        throwLater(error);
        return [];
      }
    });
    this.publish(data);
    return {
      [Symbol.dispose]: () => {
        for (const scope of scopes.splice(0).reverse()) scope[Symbol.dispose]();
      },
    };
  }
  runStores(data: unknown, run: AnyFunction, receiver?: unknown, ...args: unknown[]): unknown {
    const scope = this.withStoreScope(data);
    try {
      return Reflect.apply(run, receiver, args);
    } finally {
      scope[Symbol.dispose]();
    }
  }
}

function channel(name: unknown): Channel {
  if (typeof name !== "string" && typeof name !== "symbol") {
    throw invalidArgument("channel", "one of type string or symbol", name);
  }
  return channels.get(name) ?? new Channel(name);
}

type Given<Phase extends string> = string | { readonly [Name in Phase]: Channel };

function phaseOf<Phase extends string>(given: Given<Phase>, phase: Phase): Channel {
  if (typeof given === "string") return channel(`tracing:${given}:${phase}`);
  if (typeof given !== "object" || given === null) {
    throw invalidArgument("nameOrChannels", "of type string or an instance of BoundedChannel or Object", given);
  }
  const found: unknown = given[phase];
  if (!(found instanceof Channel)) throw invalidArgument(`nameOrChannels.${phase}`, "an instance of Channel", found);
  return found;
}

type Handlers = { readonly [phase: string]: Subscriber | undefined };
type Phases = readonly (readonly [name: string, channel: Channel])[];

function subscribeAll(phases: Phases, handlers: Handlers): void {
  for (const [name, one] of phases) if (handlers[name]) one.subscribe(handlers[name]);
}

function unsubscribeAll(phases: Phases, handlers: Handlers): boolean {
  const done = phases.map(([name, one]) => !handlers[name] || one.unsubscribe(handlers[name]));
  return done.every(Boolean);
}

export class BoundedChannel {
  declare readonly start: Channel;
  declare readonly end: Channel;

  constructor(given: Given<"start" | "end">) {
    for (const phase of ["start", "end"] as const) Object.defineProperty(this, phase, { value: phaseOf(given, phase) });
  }
  get #phases(): Phases {
    return [
      ["start", this.start],
      ["end", this.end],
    ];
  }
  get hasSubscribers(): boolean {
    return this.start.hasSubscribers || this.end.hasSubscribers;
  }
  subscribe(handlers: Handlers): void {
    subscribeAll(this.#phases, handlers);
  }
  unsubscribe(handlers: Handlers): boolean {
    return unsubscribeAll(this.#phases, handlers);
  }
  withScope(context: unknown = {}): Disposable {
    const scope = this.hasSubscribers ? this.start.withStoreScope(context) : undefined;
    let isOver = scope === undefined;
    return {
      [Symbol.dispose]: () => {
        if (isOver) return;
        isOver = true;
        this.end.publish(context);
        scope?.[Symbol.dispose]();
      },
    };
  }
  run(context: unknown, run: AnyFunction, receiver?: unknown, ...args: unknown[]): unknown {
    const scope = this.withScope(context ?? {});
    try {
      return Reflect.apply(run, receiver, args);
    } finally {
      scope[Symbol.dispose]();
    }
  }
}

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof (value as { readonly then?: unknown } | null | undefined)?.then === "function";

function warnOfOther(run: AnyFunction): void {
  const name = run.name || "<anonymous>";
  process.emitWarning(`tracePromise was called with the function '${name}', which returned a non-thenable.`);
}

class TracingChannel {
  readonly #call: BoundedChannel;
  /** Around what continues when the call has settled. */
  readonly #continuation: BoundedChannel;
  declare readonly error: Channel;

  constructor(given: Given<"start" | "end" | "asyncStart" | "asyncEnd" | "error">) {
    const pair = (start: "start" | "asyncStart", end: "end" | "asyncEnd"): BoundedChannel =>
      new BoundedChannel({ start: phaseOf(given, start), end: phaseOf(given, end) });
    this.#call = pair("start", "end");
    this.#continuation = pair("asyncStart", "asyncEnd");
    Object.defineProperty(this, "error", { value: phaseOf(given, "error") });
  }
  get start(): Channel {
    return this.#call.start;
  }
  get end(): Channel {
    return this.#call.end;
  }
  get asyncStart(): Channel {
    return this.#continuation.start;
  }
  get asyncEnd(): Channel {
    return this.#continuation.end;
  }
  get #phases(): Phases {
    const names = ["start", "end", "asyncStart", "asyncEnd", "error"] as const;
    return names.map((name) => [name, this[name]]);
  }
  get hasSubscribers(): boolean {
    return this.#phases.some(([, { hasSubscribers }]) => hasSubscribers);
  }
  subscribe(handlers: Handlers): void {
    subscribeAll(this.#phases, handlers);
  }
  unsubscribe(handlers: Handlers): boolean {
    return unsubscribeAll(this.#phases, handlers);
  }

  /** Runs the call in the scope of `start` and `end`, and publishes what it throws. */
  #trace(context: Context, run: () => unknown): unknown {
    const scope = this.#call.withScope(context);
    try {
      return run();
    } catch (error) {
      context.error = error;
      this.error.publish(context);
      throw error;
    } finally {
      scope[Symbol.dispose]();
    }
  }

  traceSync(run: AnyFunction, given?: Context, receiver?: unknown, ...args: unknown[]): unknown {
    if (!this.hasSubscribers) return Reflect.apply(run, receiver, args);
    const context: Context = given ?? (Object.create(null) as Context);
    return this.#trace(context, () => {
      context.result = Reflect.apply(run, receiver, args);
      return context.result;
    });
  }

  tracePromise(run: AnyFunction, given?: Context, receiver?: unknown, ...args: unknown[]): unknown {
    const isTraced = this.hasSubscribers;
    const context: Context = given ?? (Object.create(null) as Context);
    const call = (): unknown => {
      const result = Reflect.apply(run, receiver, args);
      if (!isThenable(result)) {
        warnOfOther(run);
        if (isTraced) context.result = result;
        return result;
      }
      return isTraced ? this.#follow(result, context) : result;
    };
    return isTraced ? this.#trace(context, call) : call();
  }
  #follow(result: PromiseLike<unknown>, context: Context): unknown {
    const onResolve = (value: unknown): unknown => {
      context.result = value;
      this.#continuation.withScope(context)[Symbol.dispose]();
      return value;
    };
    const onReject = (error: unknown): void => {
      context.error = error;
      this.error.publish(context);
      this.#continuation.withScope(context)[Symbol.dispose]();
    };
    if (types.isPromise(result) && Object.getPrototypeOf(result) === Promise.prototype) {
      return result.then(onResolve, (error) => {
        onReject(error);
        throw error;
      });
    }
    // The caller receives its own thenable, with its methods.
    result.then(onResolve, onReject);
    return result;
  }

  traceCallback(
    run: AnyFunction,
    position = -1,
    context: Context = {},
    receiver?: unknown,
    ...args: unknown[]
  ): unknown {
    if (!this.hasSubscribers) return Reflect.apply(run, receiver, args);
    const callback = args.at(position);
    checkFunction(callback, "callback");
    const [errors, continuation] = [this.error, this.#continuation];
    function wrapped(this: unknown, ...results: unknown[]): unknown {
      const [error, result] = results;
      if (error) {
        context.error = error;
        errors.publish(context);
      } else context.result = result;
      return continuation.run(context, callback as AnyFunction, this, ...results);
    }
    args.splice(position, 1, wrapped);
    return this.#trace(context, () => Reflect.apply(run, receiver, args));
  }
}

nameClasses({ Channel, BoundedChannel, TracingChannel });

export const diagnosticsChannel = {
  BoundedChannel,
  Channel,
  boundedChannel: (given: Given<"start" | "end">): BoundedChannel => new BoundedChannel(given),
  channel,
  hasSubscribers: (name: Name): boolean => channels.get(name)?.hasSubscribers ?? false,
  subscribe: (name: unknown, subscriber: Subscriber): void => channel(name).subscribe(subscriber),
  tracingChannel: (given: ConstructorParameters<typeof TracingChannel>[0]): TracingChannel => new TracingChannel(given),
  unsubscribe: (name: unknown, subscriber: Subscriber): boolean => channel(name).unsubscribe(subscriber),
};
