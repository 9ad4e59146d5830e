// Event, EventTarget, AbortController and AbortSignal (DOM standard, without a tree: no bubbling, no capture).
import { writeLog } from "./console.ts";
import { DOMException } from "./dom-exception.ts";
import { describeValue } from "./error-text.ts";
import { inspect } from "./inspect.ts";
import {
  append,
  DateNow,
  defineLazyGlobals,
  MapConstructor,
  MapPrototypeGet,
  MapPrototypeSet,
  ReflectApply,
  StringConstructor,
  TypeErrorConstructor,
} from "./primordials.ts";

type Listener = ((event: Event) => void) | { handleEvent(event: Event): void };

interface Registration {
  readonly listener: Listener;
  readonly once: boolean;
  removed: boolean;
}

export class Event {
  readonly type: string;
  readonly bubbles: boolean;
  readonly cancelable: boolean;
  readonly composed = false;
  readonly timeStamp = DateNow();
  readonly isTrusted: boolean = false;
  target: EventTarget | null = null;
  currentTarget: EventTarget | null = null;
  defaultPrevented = false;
  #stopped = false;

  constructor(type: unknown, init?: { readonly bubbles?: unknown; readonly cancelable?: unknown }) {
    this.type = StringConstructor(type);
    this.bubbles = Boolean(init?.bubbles);
    this.cancelable = Boolean(init?.cancelable);
  }

  preventDefault(): void {
    if (this.cancelable) this.defaultPrevented = true;
  }
  stopPropagation(): void {}
  stopImmediatePropagation(): void {
    this.#stopped = true;
  }
  composedPath(): EventTarget[] {
    return this.target === null ? [] : [this.target];
  }
  static wasStopped(event: Event): boolean {
    return event.#stopped;
  }
}
const wasStopped = Event.wasStopped;
Reflect.deleteProperty(Event, "wasStopped");

class CustomEvent extends Event {
  readonly detail: unknown;
  constructor(
    type: unknown,
    init?: { readonly detail?: unknown; readonly bubbles?: unknown; readonly cancelable?: unknown },
  ) {
    super(type, init);
    this.detail = init?.detail ?? null;
  }
}

export class EventTarget {
  readonly #listeners = new MapConstructor<string, Registration[]>();

  addEventListener(
    type: unknown,
    listener: Listener | null,
    options?: boolean | { readonly once?: unknown; readonly signal?: AbortSignal },
  ): void {
    if (listener === null || listener === undefined) return;
    if (typeof listener !== "function" && typeof listener !== "object") {
      throw new TypeErrorConstructor(`addEventListener expected a function, got ${describeValue(listener)}`);
    }
    const settings = typeof options === "object" ? options : undefined;
    if (settings?.signal?.aborted) return;
    const key = StringConstructor(type);
    const registrations = MapPrototypeGet(this.#listeners, key) ?? [];
    for (let index = 0; index < registrations.length; index += 1) {
      if (registrations[index]?.listener === listener) return;
    }
    append(registrations, { listener, once: Boolean(settings?.once), removed: false });
    MapPrototypeSet(this.#listeners, key, registrations);
    settings?.signal?.addEventListener("abort", () => this.removeEventListener(key, listener));
  }

  removeEventListener(type: unknown, listener: Listener | null): void {
    const key = StringConstructor(type);
    const kept: Registration[] = [];
    const registrations = MapPrototypeGet(this.#listeners, key) ?? [];
    for (let index = 0; index < registrations.length; index += 1) {
      const registration = registrations[index] as Registration;
      if (registration.listener === listener) registration.removed = true;
      else append(kept, registration);
    }
    MapPrototypeSet(this.#listeners, key, kept);
  }

  dispatchEvent(event: Event): boolean {
    event.target = this;
    event.currentTarget = this;
    const registrations = MapPrototypeGet(this.#listeners, event.type) ?? [];
    const count = registrations.length;
    for (let index = 0; index < count && !wasStopped(event); index += 1) {
      const registration = registrations[index] as Registration;
      if (registration.removed) continue;
      if (registration.once) this.removeEventListener(event.type, registration.listener);
      callListener(registration.listener, this, event);
    }
    event.currentTarget = null;
    return !event.defaultPrevented;
  }
}

/** A listener that throws does not stop the others: its error is reported (DOM, "inner invoke"). */
function callListener(listener: Listener, target: EventTarget, event: Event): void {
  try {
    if (typeof listener === "function") ReflectApply(listener, target, [event]);
    else listener.handleEvent(event);
  } catch (thrown) {
    writeLog("error", `Uncaught in an event listener: ${inspect(thrown, 4_096)}`);
  }
}

const CONSTRUCT = Symbol("construct");

export class AbortSignal extends EventTarget {
  #aborted = false;
  #reason: unknown = undefined;
  onabort: ((event: Event) => void) | null = null;

  constructor(key?: symbol) {
    super();
    if (key !== CONSTRUCT) throw new TypeErrorConstructor("AbortSignal cannot be constructed; use AbortController");
  }

  get aborted(): boolean {
    return this.#aborted;
  }
  get reason(): unknown {
    return this.#reason;
  }
  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason;
  }

  static abort(reason?: unknown): AbortSignal {
    const signal = new AbortSignal(CONSTRUCT);
    abortSignal(signal, reason);
    return signal;
  }

  static timeout(milliseconds: unknown): AbortSignal {
    const signal = new AbortSignal(CONSTRUCT);
    const { setTimeout } = globalThis as unknown as { setTimeout(run: () => void, delay: unknown): number };
    setTimeout(() => abortSignal(signal, new DOMException("The operation timed out", "TimeoutError")), milliseconds);
    return signal;
  }

  static any(signals: Iterable<AbortSignal>): AbortSignal {
    const joined = new AbortSignal(CONSTRUCT);
    for (const signal of signals) {
      if (signal.aborted) {
        abortSignal(joined, signal.reason);
        break;
      }
      signal.addEventListener("abort", () => abortSignal(joined, signal.reason), { once: true });
    }
    return joined;
  }

  static trigger(signal: AbortSignal, reason: unknown): void {
    if (signal.#aborted) return;
    signal.#aborted = true;
    signal.#reason = reason === undefined ? new DOMException("This operation was aborted", "AbortError") : reason;
    const event = new Event("abort");
    if (typeof signal.onabort === "function") callListener(signal.onabort, signal, event);
    signal.dispatchEvent(event);
  }
}
const abortSignal = AbortSignal.trigger;
Reflect.deleteProperty(AbortSignal, "trigger");

export class AbortController {
  readonly signal: AbortSignal = new AbortSignal(CONSTRUCT);
  abort(reason?: unknown): void {
    abortSignal(this.signal, reason);
  }
}

export function installEvents(): void {
  defineLazyGlobals(["Event", "CustomEvent", "EventTarget", "AbortController", "AbortSignal"], () => ({
    Event,
    CustomEvent,
    EventTarget,
    AbortController,
    AbortSignal,
  }));
}
