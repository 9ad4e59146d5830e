// node:events: EventEmitter with Node's order, errors and capture of rejections, and the module's functions.
import { checkFunction, invalidArgument, nodeError, outOfRange } from "../shared/node-error.ts";
import {
  addAbortListener,
  type Emitter,
  type EventName,
  isEmitter,
  type Listener,
  on,
  once,
} from "./node-event-waits.ts";

export type EventEmitter = Emitter;

const captures = Symbol("kCapture");
export const errorMonitor = Symbol("events.errorMonitor");
export const captureRejectionSymbol = Symbol.for("nodejs.rejection");
let defaultMaxListeners = 10;
let captureRejections = false;

interface EmitterConstructor {
  (this: unknown, options?: { readonly captureRejections?: boolean }): void;
  new (options?: { readonly captureRejections?: boolean }): EventEmitter;
  prototype: EventEmitter;
  [name: string]: unknown;
}

/** A function instead of a class: packages call it on their own objects. */
export const EventEmitter = function EventEmitter(
  this: EventEmitter,
  options?: { readonly captureRejections?: boolean },
): void {
  initialize(this, options);
} as unknown as EmitterConstructor;

function initialize(emitter: EventEmitter, options?: { readonly captureRejections?: boolean }): void {
  if (emitter._events === undefined || emitter._events === Object.getPrototypeOf(emitter)._events) {
    emitter._events = Object.create(null) as Record<EventName, Listener[]>;
    emitter._eventsCount = 0;
  }
  emitter._maxListeners = emitter._maxListeners || undefined;
  if (options?.captureRejections) emitter[captures] = true;
}

function eventsOf(emitter: EventEmitter): { [name: EventName]: Listener[] | undefined } {
  emitter._events ??= Object.create(null) as Record<EventName, Listener[]>;
  return emitter._events;
}

function checkListener(listener: unknown): asserts listener is Listener {
  checkFunction(listener, "listener");
}

/** Warns of a possible leak, once per event. */
function warnOfMany(emitter: EventEmitter, name: EventName, list: Listener[] & { warned?: boolean }): void {
  const limit = emitter.getMaxListeners();
  if (limit <= 0 || list.length <= limit || list.warned) return;
  list.warned = true;
  const console = (globalThis as { console?: { warn(text: string): void } }).console;
  console?.warn(
    `MaxListenersExceededWarning: ${list.length} ${String(name)} listeners added to one emitter; use emitter.setMaxListeners() to raise the limit`,
  );
}

function add(emitter: EventEmitter, name: EventName, listener: unknown, first: boolean): EventEmitter {
  checkListener(listener);
  const events = eventsOf(emitter);
  if (events.newListener !== undefined) emitter.emit("newListener", name, listener.listener ?? listener);
  const known = eventsOf(emitter)[name];
  if (known === undefined) {
    eventsOf(emitter)[name] = [listener];
    emitter._eventsCount += 1;
  } else {
    if (first) known.unshift(listener);
    else known.push(listener);
    warnOfMany(emitter, name, known);
  }
  return emitter;
}

function onceWrapper(emitter: EventEmitter, name: EventName, listener: unknown): Listener {
  checkListener(listener);
  let fired = false;
  const wrapper: Listener = (...args) => {
    if (fired) return undefined;
    emitter.removeListener(name, wrapper);
    fired = true;
    return Reflect.apply(listener, emitter, args);
  };
  wrapper.listener = listener;
  return wrapper;
}

function throwUnhandled(args: readonly unknown[]): never {
  const [error] = args;
  if (error instanceof Error) throw error;
  const shown = require("../console/inspect.ts").inspect(error);
  const unhandled = nodeError(Error, "ERR_UNHANDLED_ERROR", `Unhandled error. (${shown})`);
  throw Object.assign(unhandled, { context: error });
}

/** Emits a rejection of a listener's promise as an `error` event if `captureRejections` is set. */
function capture(emitter: EventEmitter, result: unknown, name: EventName, args: readonly unknown[]): void {
  if (typeof (result as { then?: unknown } | undefined)?.then !== "function") return;
  (result as PromiseLike<unknown>).then(undefined, (error: unknown) => {
    queueMicrotask(() => {
      const handler = emitter[captureRejectionSymbol];
      if (typeof handler === "function") Reflect.apply(handler, emitter, [error, name, ...args]);
      else {
        const previous = emitter[captures];
        try {
          emitter[captures] = false;
          emitter.emit("error", error);
        } finally {
          emitter[captures] = previous ?? false;
        }
      }
    });
  });
}
declare function queueMicrotask(run: () => void): void;

const methods = {
  emit(this: EventEmitter, name: EventName, ...args: unknown[]): boolean {
    const events = this._events;
    if (name === "error") {
      if (events?.[errorMonitor] !== undefined) this.emit(errorMonitor, ...args);
      if (events?.error === undefined) throwUnhandled(args);
    }
    const list = events?.[name];
    if (list === undefined) return false;
    const captured = this[captures] ?? captureRejections;
    for (const listener of [...list]) {
      const result: unknown = Reflect.apply(listener, this, args);
      if (captured && result !== undefined && result !== null) capture(this, result, name, args);
    }
    return true;
  },
  on(this: EventEmitter, name: EventName, listener: Listener): EventEmitter {
    return add(this, name, listener, false);
  },
  prependListener(this: EventEmitter, name: EventName, listener: Listener): EventEmitter {
    return add(this, name, listener, true);
  },
  once(this: EventEmitter, name: EventName, listener: Listener): EventEmitter {
    return this.on(name, onceWrapper(this, name, listener));
  },
  prependOnceListener(this: EventEmitter, name: EventName, listener: Listener): EventEmitter {
    return add(this, name, onceWrapper(this, name, listener), true);
  },
  removeListener(this: EventEmitter, name: EventName, listener: Listener): EventEmitter {
    checkListener(listener);
    const list = this._events?.[name];
    const index = list?.findLastIndex((one) => one === listener || one.listener === listener) ?? -1;
    if (list === undefined || index < 0) return this;
    const [removed] = list.splice(index, 1);
    if (list.length === 0) drop(this, name);
    if (this._events?.removeListener !== undefined) {
      this.emit("removeListener", name, removed?.listener ?? listener);
    }
    return this;
  },
  removeAllListeners(this: EventEmitter, ...names: EventName[]): EventEmitter {
    const events = eventsOf(this);
    const [name] = names;
    if (names.length === 0 || name === undefined) {
      if (events.removeListener !== undefined) {
        for (const key of Reflect.ownKeys(events)) {
          if (key !== "removeListener") removeEach(this, key);
        }
      }
      this._events = Object.create(null) as Record<EventName, Listener[]>;
      this._eventsCount = 0;
    } else if (events.removeListener === undefined) {
      if (events[name] !== undefined) drop(this, name);
    } else removeEach(this, name);
    return this;
  },
  setMaxListeners(this: EventEmitter, count: unknown): EventEmitter {
    this._maxListeners = checkCount(count, "setMaxListeners");
    return this;
  },
  getMaxListeners(this: EventEmitter): number {
    return this._maxListeners ?? defaultMaxListeners;
  },
  listeners(this: EventEmitter, name: EventName): Listener[] {
    return (this._events?.[name] ?? []).map((one) => one.listener ?? one);
  },
  rawListeners(this: EventEmitter, name: EventName): Listener[] {
    return [...(this._events?.[name] ?? [])];
  },
  listenerCount(this: EventEmitter, name: EventName, listener?: Listener): number {
    const list = this._events?.[name] ?? [];
    if (listener === undefined || listener === null) return list.length;
    return list.filter((one) => one === listener || one.listener === listener).length;
  },
  eventNames(this: EventEmitter): EventName[] {
    return this._events === undefined ? [] : (Reflect.ownKeys(this._events) as EventName[]);
  },
};

function drop(emitter: EventEmitter, name: EventName): void {
  delete eventsOf(emitter)[name];
  emitter._eventsCount -= 1;
}

function removeEach(emitter: EventEmitter, name: EventName): void {
  for (const listener of [...(emitter._events?.[name] ?? [])].reverse()) emitter.removeListener(name, listener);
}

function checkCount(count: unknown, name: string): number {
  if (typeof count !== "number" || !(count >= 0)) throw outOfRange(name, "a non-negative number", count);
  return count;
}

for (const [name, value] of Object.entries({ ...methods, addListener: methods.on, off: methods.removeListener })) {
  Object.defineProperty(EventEmitter.prototype, name, { value, writable: true, enumerable: true, configurable: true });
}
EventEmitter.prototype._events = undefined;
EventEmitter.prototype._eventsCount = 0;
EventEmitter.prototype._maxListeners = undefined;

// Paths of imports. The modules are loaded when they are needed.
declare function require(name: "./events.ts"): typeof import("./events.ts");

export function getEventListeners(emitter: unknown, name: EventName): Listener[] {
  if (isEmitter(emitter)) return emitter.listeners(name);
  const listeners = require("./events.ts").listenersOf(emitter, String(name));
  if (listeners === undefined) throw invalidArgument("emitter", "an instance of EventEmitter or EventTarget", emitter);
  return [...listeners] as Listener[];
}

export function getMaxListeners(emitter: unknown): number {
  return isEmitter(emitter) ? emitter.getMaxListeners() : defaultMaxListeners;
}

export function setMaxListeners(count: unknown = defaultMaxListeners, ...emitters: unknown[]): void {
  const checked = checkCount(count, "setMaxListeners");
  if (emitters.length === 0) defaultMaxListeners = checked;
  for (const emitter of emitters) if (isEmitter(emitter)) emitter._maxListeners = checked;
}

export function listenerCount(emitter: unknown, name: EventName): number {
  return isEmitter(emitter) ? emitter.listenerCount(name) : getEventListeners(emitter, name).length;
}

// Paths of imports. The modules are loaded when they are needed.
declare function require(name: "../process/node-async-hooks.ts"): typeof import("../process/node-async-hooks.ts");
declare function require(name: "../console/inspect.ts"): typeof import("../console/inspect.ts");

/** Runs its listeners in the context in which it was created. */
class EventEmitterAsyncResource extends EventEmitter {
  readonly asyncResource: InstanceType<typeof import("../process/node-async-hooks.ts").AsyncResource>;

  constructor(options?: string | { readonly name?: string; readonly captureRejections?: boolean }) {
    super(typeof options === "string" ? undefined : options);
    const name = (typeof options === "string" ? options : options?.name) || new.target.name;
    this.asyncResource = new (require("../process/node-async-hooks.ts").AsyncResource)(name);
  }

  override emit(type: PropertyKey, ...args: unknown[]): boolean {
    const emit = (): boolean => super.emit(type as string, ...args);
    return this.asyncResource.runInAsyncScope(emit) as boolean;
  }
  get asyncId(): number {
    return this.asyncResource.asyncId();
  }
  get triggerAsyncId(): number {
    return this.asyncResource.triggerAsyncId();
  }
  emitDestroy(): void {}
}

Object.assign(EventEmitter, {
  EventEmitter,
  EventEmitterAsyncResource,
  addAbortListener,
  captureRejectionSymbol,
  errorMonitor,
  getEventListeners,
  getMaxListeners,
  init(this: EventEmitter, options?: { readonly captureRejections?: boolean }) {
    initialize(this, options);
  },
  listenerCount,
  on,
  once,
  setMaxListeners,
  usingDomains: false,
});
Object.defineProperties(EventEmitter, {
  defaultMaxListeners: {
    enumerable: true,
    get: () => defaultMaxListeners,
    set: (count: unknown) => {
      defaultMaxListeners = checkCount(count, "defaultMaxListeners");
    },
  },
  captureRejections: {
    enumerable: true,
    get: () => captureRejections,
    set: (value: unknown) => {
      captureRejections = !!value;
    },
  },
});

export const builtins = { events: EventEmitter };
