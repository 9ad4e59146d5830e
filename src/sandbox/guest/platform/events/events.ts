// Event, CustomEvent and EventTarget (DOM standard). There is no tree: the path of an event is its only target.

import { now, timeOrigin } from "../../coarse-time.ts";
import { describeValue } from "../../error-text.ts";
import { createDomException, usePlatformModule } from "../../module-loader.ts";
import {
  append,
  MapConstructor,
  MapPrototypeDelete,
  MapPrototypeGet,
  MapPrototypeSet,
  ObjectKeys,
  ReflectApply,
  ReflectDefineProperty,
  ReflectGetOwnPropertyDescriptor,
  StringConstructor,
  TypeErrorConstructor,
} from "../../primordials.ts";
import { reportException } from "../../uncaught-errors.ts";
import { defineInterface } from "../shared/interface.ts";

type Dictionary = { readonly [member: string]: unknown };

/** Converts to a dictionary (Web IDL): any object is one, null and undefined are an empty one. */
function toDictionary(value: unknown, what: string): Dictionary {
  if (value === undefined || value === null) return { __proto__: null } as unknown as Dictionary;
  if (typeof value === "object" || typeof value === "function") return value as Dictionary;
  throw new TypeErrorConstructor(`${what} expected an object, got ${describeValue(value)}`);
}

const PHASES = { __proto__: null as never, NONE: 0, CAPTURING_PHASE: 1, AT_TARGET: 2, BUBBLING_PHASE: 3 };

/** Functions with which dispatch controls an event. A guest cannot reach them. */
interface EventControl {
  isStopped(event: Event): boolean;
  isStoppedAtOnce(event: Event): boolean;
  isCanceled(event: Event): boolean;
  setPassive(event: Event, passive: boolean): void;
  begin(event: unknown, target: object, isTrusted: boolean): void;
  end(event: Event): void;
}
let control: EventControl;

/** One getter for all events, so that a guest cannot read it from a single one. */
let getIsTrusted: (this: Event) => boolean;

export class Event {
  #type: string;
  #bubbles: boolean;
  #cancelable: boolean;
  readonly #composed: boolean;
  readonly #timeStamp = now() - timeOrigin();
  #target: object | null = null;
  #isTrusted = false;
  #dispatching = false;
  #stopped = false;
  #stoppedAtOnce = false;
  #canceled = false;
  #passive = false;

  static {
    getIsTrusted = function (this: Event): boolean {
      return this.#isTrusted;
    };
    control = {
      isStopped: (event) => event.#stopped,
      isStoppedAtOnce: (event) => event.#stoppedAtOnce,
      isCanceled: (event) => event.#canceled,
      setPassive: (event, passive) => {
        event.#passive = passive;
      },
      begin: (event, target, isTrusted) => {
        if (!(typeof event === "object" && event !== null && #type in event)) {
          throw new TypeErrorConstructor("dispatchEvent expected an Event");
        }
        if (event.#dispatching) throw createDomException("The event is being dispatched already", "InvalidStateError");
        event.#dispatching = true;
        event.#isTrusted = isTrusted;
        event.#target = target;
      },
      end: (event) => {
        event.#dispatching = false;
        event.#stopped = false;
        event.#stoppedAtOnce = false;
      },
    };
  }

  constructor(type: unknown, init: unknown = undefined) {
    if (arguments.length === 0) throw new TypeErrorConstructor("Event expected a type, got no argument");
    this.#type = StringConstructor(type);
    const { bubbles, cancelable, composed } = toDictionary(init, "Event");
    this.#bubbles = !!bubbles;
    this.#cancelable = !!cancelable;
    this.#composed = !!composed;
    ReflectDefineProperty(this, "isTrusted", {
      __proto__: null,
      get: getIsTrusted,
      enumerable: true,
      configurable: false,
    } as PropertyDescriptor);
  }

  get type(): string {
    return this.#type;
  }
  get target(): object | null {
    return this.#target;
  }
  get srcElement(): object | null {
    return this.#target;
  }
  get currentTarget(): object | null {
    return this.#dispatching ? this.#target : null;
  }
  composedPath(): object[] {
    return this.#dispatching && this.#target !== null ? [this.#target] : [];
  }
  get eventPhase(): number {
    return this.#dispatching ? PHASES.AT_TARGET : PHASES.NONE;
  }
  stopPropagation(): void {
    this.#stopped = true;
  }
  get cancelBubble(): boolean {
    return this.#stopped;
  }
  set cancelBubble(value: unknown) {
    if (value) this.#stopped = true;
  }
  stopImmediatePropagation(): void {
    this.#stopped = true;
    this.#stoppedAtOnce = true;
  }
  get bubbles(): boolean {
    return this.#bubbles;
  }
  get cancelable(): boolean {
    return this.#cancelable;
  }
  get returnValue(): boolean {
    return !this.#canceled;
  }
  set returnValue(value: unknown) {
    if (!value) this.preventDefault();
  }
  preventDefault(): void {
    if (this.#cancelable && !this.#passive) this.#canceled = true;
  }
  get defaultPrevented(): boolean {
    return this.#canceled;
  }
  get composed(): boolean {
    return this.#composed;
  }
  get timeStamp(): number {
    return this.#timeStamp;
  }
  initEvent(type: unknown, bubbles: unknown = false, cancelable: unknown = false): void {
    if (arguments.length === 0) throw new TypeErrorConstructor("initEvent expected a type, got no argument");
    const text = StringConstructor(type);
    if (this.#dispatching) return;
    this.#stopped = false;
    this.#stoppedAtOnce = false;
    this.#canceled = false;
    this.#isTrusted = false;
    this.#target = null;
    this.#type = text;
    this.#bubbles = !!bubbles;
    this.#cancelable = !!cancelable;
  }
}

const names = ObjectKeys(PHASES);
for (let index = 0; index < names.length; index += 1) {
  const name = names[index] as keyof typeof PHASES;
  const descriptor = { __proto__: null, value: PHASES[name], enumerable: true } as PropertyDescriptor;
  ReflectDefineProperty(Event, name, descriptor);
  ReflectDefineProperty(Event.prototype, name, descriptor);
}
defineInterface("Event", Event);

/** Runs `algorithm` when the signal aborts. Returns false if it has already aborted. Throws if the value is not a signal. */
type OnAbort = (signal: unknown, algorithm: () => void) => boolean;
const onAbort: OnAbort = (signal, algorithm) => (usePlatformModule("abort").onAbort as OnAbort)(signal, algorithm);

type Listener = ((event: Event) => unknown) | { handleEvent(event: Event): unknown };
interface Registration {
  readonly listener: Listener;
  readonly capture: boolean;
  readonly once: boolean;
  readonly passive: boolean;
  removed: boolean;
}

interface Options extends Dictionary {
  readonly capture?: unknown;
  readonly once?: unknown;
  readonly passive?: unknown;
  readonly signal?: unknown;
}

/** Options are an object or, in the legacy form, the value of `capture`. */
const toOptions = (options: unknown): Options =>
  (typeof options === "object" && options !== null) || typeof options === "function"
    ? (options as Options)
    : ({ __proto__: null, capture: options } as unknown as Options);

function toListener(listener: unknown, what: string): Listener | null {
  if (listener === null || listener === undefined) return null;
  if (typeof listener === "function" || typeof listener === "object") return listener as Listener;
  throw new TypeErrorConstructor(`${what} expected a function, got ${describeValue(listener)}`);
}

function requireTwo(what: string, count: number): void {
  if (count < 2) throw new TypeErrorConstructor(`${what} expected a type and a listener`);
}

/** If a listener throws, the error is reported and the other listeners still run (DOM, "inner invoke"). */
function callListener(listener: Listener, target: object, event: Event): void {
  try {
    if (typeof listener === "function") ReflectApply(listener, target, [event]);
    else listener.handleEvent(event);
  } catch (thrown) {
    reportException(thrown, "in an event listener");
  }
}

let add: (target: EventTarget, type: string, registration: Registration) => void;
let remove: (target: EventTarget, type: string, listener: Listener | null, capture: boolean) => void;
/** `shown` is the target that listeners see, if it differs from the real target: the global object. */
export let dispatch: (target: EventTarget, event: unknown, isTrusted: boolean, shown?: object) => boolean;
/** Returns the value of an event handler such as `onabort`. */
export let getHandler: (target: EventTarget, type: string) => unknown;
export let setHandler: (target: EventTarget, type: string, value: unknown) => void;
/** Tells whether an event of the type would reach a listener. */
export let hasListeners: (target: EventTarget, type: string) => boolean;

/** Returns the listeners of a type in their order, or undefined for a value that is not a target. */
export let listenersOf: (target: unknown, type: string) => readonly unknown[] | undefined;

export class EventTarget {
  readonly #listeners = new MapConstructor<string, Registration[]>();
  readonly #handlers = new MapConstructor<string, { value: unknown; readonly listener: Listener }>();

  static {
    add = (target, type, registration) => {
      const registrations = MapPrototypeGet(target.#listeners, type) ?? [];
      const { listener, capture } = registration;
      for (let index = 0; index < registrations.length; index += 1) {
        const known = registrations[index] as Registration;
        if (known.listener === listener && known.capture === capture) return;
      }
      append(registrations, registration);
      MapPrototypeSet(target.#listeners, type, registrations);
    };
    remove = (target, type, listener, capture) => {
      const kept: Registration[] = [];
      const registrations = MapPrototypeGet(target.#listeners, type) ?? [];
      for (let index = 0; index < registrations.length; index += 1) {
        const registration = registrations[index] as Registration;
        if (registration.listener === listener && registration.capture === capture) registration.removed = true;
        else append(kept, registration);
      }
      MapPrototypeSet(target.#listeners, type, kept);
    };
    /** Calls the listeners that exist now. Listeners added meanwhile wait for the next event, and removed ones are not called. */
    const invoke = (target: EventTarget, event: Event, capture: boolean, shown: object): void => {
      if (control.isStopped(event)) return;
      const { type } = event;
      const registrations = MapPrototypeGet(target.#listeners, type) ?? [];
      const count = registrations.length;
      for (let index = 0; index < count && !control.isStoppedAtOnce(event); index += 1) {
        const registration = registrations[index] as Registration;
        if (registration.removed || registration.capture !== capture) continue;
        if (registration.once) remove(target, type, registration.listener, capture);
        control.setPassive(event, registration.passive);
        callListener(registration.listener, shown, event);
        control.setPassive(event, false);
      }
    };
    dispatch = (target, given, isTrusted, shown = target) => {
      control.begin(given, shown, isTrusted);
      const event = given as Event;
      invoke(target, event, true, shown);
      invoke(target, event, false, shown);
      control.end(event);
      return !control.isCanceled(event);
    };
    listenersOf = (target, type) => {
      if (typeof target !== "object" || target === null || !(#listeners in target)) return undefined;
      const registrations = MapPrototypeGet(target.#listeners, type) ?? [];
      const listeners: unknown[] = [];
      for (let index = 0; index < registrations.length; index += 1)
        append(listeners, (registrations[index] as Registration).listener);
      return listeners;
    };
    hasListeners = (target, type) => (MapPrototypeGet(target.#listeners, type)?.length ?? 0) > 0;
    getHandler = (target, type) => MapPrototypeGet(target.#handlers, type)?.value ?? null;
    // A handler keeps its position among the listeners when its value changes, and loses it when set to null (HTML, "event handlers").
    setHandler = (target, type, value) => {
      const handlers = target.#handlers;
      const known = MapPrototypeGet(handlers, type);
      if (typeof value !== "function" && (typeof value !== "object" || value === null)) {
        if (known !== undefined) remove(target, type, known.listener, false);
        MapPrototypeDelete(handlers, type);
      } else if (known !== undefined) known.value = value;
      else {
        const handler = {
          value,
          listener: (event: Event): void => {
            if (typeof handler.value !== "function") return;
            const result = ReflectApply(handler.value as () => unknown, target, [event]);
            if (result === false) event.preventDefault();
          },
        };
        MapPrototypeSet(handlers, type, handler);
        add(target, type, {
          listener: handler.listener,
          capture: false,
          once: false,
          passive: false,
          removed: false,
        });
      }
    };
  }

  addEventListener(type: unknown, listener: unknown, options: unknown = undefined): void {
    requireTwo("addEventListener", arguments.length);
    const key = StringConstructor(type);
    const called = toListener(listener, "addEventListener");
    const given = toOptions(options);
    const capture = !!given.capture;
    const once = !!given.once;
    const passive = !!given.passive;
    const { signal } = given;
    if (signal !== undefined) {
      const goOn = onAbort(signal, () => remove(this, key, called, capture));
      if (!goOn) return;
    }
    if (called !== null) add(this, key, { listener: called, capture, once, passive, removed: false });
  }

  removeEventListener(type: unknown, listener: unknown, options: unknown = undefined): void {
    requireTwo("removeEventListener", arguments.length);
    const key = StringConstructor(type);
    const called = toListener(listener, "removeEventListener");
    remove(this, key, called, !!toOptions(options).capture);
  }

  dispatchEvent(event: unknown): boolean {
    return dispatch(this, event, false);
  }
}

defineInterface("EventTarget", EventTarget);

/** Defines the attributes `onTYPE` of an interface, each with the event handler of that type. */
export function defineHandlers(made: { readonly prototype: EventTarget }, types: readonly string[]): void {
  for (let index = 0; index < types.length; index += 1) {
    const type = types[index] as string;
    const name = `on${type}`;
    const attribute = {
      get [name](): unknown {
        return getHandler(this as unknown as EventTarget, type);
      },
      set [name](handler: unknown) {
        setHandler(this as unknown as EventTarget, type, handler);
      },
    };
    ReflectDefineProperty(made.prototype, name, ReflectGetOwnPropertyDescriptor(attribute, name) as PropertyDescriptor);
  }
}

export class CustomEvent extends Event {
  #detail: unknown;

  constructor(type: unknown, init: unknown = undefined) {
    if (arguments.length === 0) throw new TypeErrorConstructor("CustomEvent expected a type, got no argument");
    super(type, init);
    const { detail } = toDictionary(init, "CustomEvent");
    this.#detail = detail === undefined ? null : detail;
  }

  get detail(): unknown {
    return this.#detail;
  }
  initCustomEvent(type: unknown, bubbles: unknown = false, cancelable: unknown = false, detail: unknown = null): void {
    if (arguments.length === 0) throw new TypeErrorConstructor("initCustomEvent expected a type, got no argument");
    if (this.eventPhase !== PHASES.NONE) return;
    this.initEvent(type, bubbles, cancelable);
    this.#detail = detail;
  }
}
defineInterface("CustomEvent", CustomEvent);
