// Event, EventTarget, AbortController and AbortSignal (DOM standard, without a tree: no bubbling, no capture). Made when first touched.
import { now } from "./coarse-time.ts";
import { writeLog } from "./console.ts";
import { makeDomException } from "./dom-exception.ts";
import { describeValue } from "./error-text.ts";
import { inspect } from "./inspect.ts";
import {
  append,
  defineLazyGlobals,
  defineValue,
  MapConstructor,
  MapPrototypeGet,
  MapPrototypeSet,
  ReflectApply,
  StringConstructor,
  SymbolToStringTag,
  TypeErrorConstructor,
} from "./primordials.ts";
import { startTimer } from "./timers.ts";

/** All five in one function, so that an isolate that needs none pays for none. What they share is out of a guest's reach. */
function makeEventClasses() {
  type Listener = ((event: Event) => void) | { handleEvent(event: Event): void };
  interface Registration {
    readonly listener: Listener;
    readonly once: boolean;
    removed: boolean;
  }

  let isStopped: (event: Event) => boolean;
  let beginDispatch: (event: Event, target: EventTarget) => void;
  let endDispatch: (event: Event) => void;

  class Event {
    readonly type: string;
    readonly bubbles: boolean;
    readonly cancelable: boolean;
    readonly composed: boolean = false;
    readonly timeStamp: number = now();
    readonly isTrusted: boolean = false;
    target: EventTarget | null = null;
    currentTarget: EventTarget | null = null;
    defaultPrevented = false;
    #stopped = false;
    #dispatching = false;

    static {
      isStopped = (event) => event.#stopped;
      beginDispatch = (event, target) => {
        if (!(#dispatching in event)) throw new TypeErrorConstructor("dispatchEvent expected an Event");
        if (event.#dispatching) throw makeDomException("The event is being dispatched already", "InvalidStateError");
        event.#dispatching = true;
        event.target = target;
        event.currentTarget = target;
      };
      endDispatch = (event) => {
        event.#dispatching = false;
        event.#stopped = false;
        event.currentTarget = null;
      };
    }

    constructor(type: unknown, init?: { readonly bubbles?: unknown; readonly cancelable?: unknown }) {
      this.type = StringConstructor(type);
      this.bubbles = !!init?.bubbles;
      this.cancelable = !!init?.cancelable;
    }

    preventDefault(): void {
      if (this.cancelable) this.defaultPrevented = true;
    }
    stopPropagation(): void {}
    stopImmediatePropagation(): void {
      this.#stopped = true;
    }
    composedPath(): EventTarget[] {
      return this.currentTarget === null ? [] : [this.currentTarget];
    }
  }

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

  /** A listener that throws does not stop the others: its error is reported (DOM, "inner invoke"). */
  function callListener(listener: Listener, target: EventTarget, event: Event): void {
    try {
      if (typeof listener === "function") ReflectApply(listener, target, [event]);
      else listener.handleEvent(event);
    } catch (thrown) {
      writeLog("error", `Uncaught in an event listener: ${inspect(thrown, 4_096)}`);
    }
  }

  let addListener: (target: EventTarget, type: string, listener: Listener, once: boolean) => void;
  let removeListener: (target: EventTarget, type: string, listener: Listener | null) => void;
  let dispatch: (target: EventTarget, event: Event) => void;

  class EventTarget {
    readonly #listeners = new MapConstructor<string, Registration[]>();

    static {
      addListener = (target, type, listener, once) => {
        const registrations = MapPrototypeGet(target.#listeners, type) ?? [];
        for (let index = 0; index < registrations.length; index += 1) {
          if (registrations[index]?.listener === listener) return;
        }
        append(registrations, { listener, once, removed: false });
        MapPrototypeSet(target.#listeners, type, registrations);
      };
      removeListener = (target, type, listener) => {
        const kept: Registration[] = [];
        const registrations = MapPrototypeGet(target.#listeners, type) ?? [];
        for (let index = 0; index < registrations.length; index += 1) {
          const registration = registrations[index] as Registration;
          if (registration.listener === listener) registration.removed = true;
          else append(kept, registration);
        }
        MapPrototypeSet(target.#listeners, type, kept);
      };
      dispatch = (target, event) => {
        beginDispatch(event, target);
        const { type } = event;
        const registrations = MapPrototypeGet(target.#listeners, type) ?? [];
        const count = registrations.length;
        for (let index = 0; index < count && !isStopped(event); index += 1) {
          const registration = registrations[index] as Registration;
          if (registration.removed) continue;
          if (registration.once) removeListener(target, type, registration.listener);
          callListener(registration.listener, target, event);
        }
        endDispatch(event);
      };
    }

    addEventListener(
      type: unknown,
      listener?: Listener | null,
      options?: boolean | { readonly once?: unknown; readonly signal?: AbortSignal },
    ): void {
      if (listener === null || listener === undefined) return;
      if (typeof listener !== "function" && typeof listener !== "object") {
        throw new TypeErrorConstructor(`addEventListener expected a function, got ${describeValue(listener)}`);
      }
      const settings = typeof options === "object" && options !== null ? options : undefined;
      const signal = settings?.signal;
      const once = !!settings?.once;
      const key = StringConstructor(type);
      if (signal !== undefined && !onAbort(signal, () => removeListener(this, key, listener))) return;
      addListener(this, key, listener, once);
    }

    removeEventListener(type: unknown, listener?: Listener | null): void {
      removeListener(this, StringConstructor(type), listener ?? null);
    }

    dispatchEvent(event: Event): boolean {
      dispatch(this, event);
      return !event.defaultPrevented;
    }
  }

  const KEY = {};
  let abortSignal: (signal: AbortSignal, reason: unknown) => void;
  /** Runs `algorithm` when the signal aborts, before its listeners; false if it has aborted already. */
  let onAbort: (signal: AbortSignal, algorithm: () => void) => boolean;

  class AbortSignal extends EventTarget {
    #aborted = false;
    #reason: unknown = undefined;
    #algorithms: (() => void)[] = [];
    #handler: ((event: Event) => void) | null = null;

    static {
      onAbort = (signal, algorithm) => {
        if (!(typeof signal === "object" && signal !== null && #aborted in signal)) {
          throw new TypeErrorConstructor(`Expected an AbortSignal, got ${describeValue(signal)}`);
        }
        if (!signal.#aborted) append(signal.#algorithms, algorithm);
        return !signal.#aborted;
      };
      abortSignal = (signal, reason) => {
        if (signal.#aborted) return;
        signal.#aborted = true;
        signal.#reason = reason === undefined ? makeDomException("This operation was aborted", "AbortError") : reason;
        const algorithms = signal.#algorithms;
        signal.#algorithms = [];
        for (let index = 0; index < algorithms.length; index += 1) algorithms[index]?.();
        dispatch(signal, new Event("abort"));
      };
    }

    constructor(key?: object) {
      super();
      if (key !== KEY) throw new TypeErrorConstructor("AbortSignal cannot be constructed; use AbortController");
    }

    get aborted(): boolean {
      return this.#aborted;
    }
    get reason(): unknown {
      return this.#reason;
    }
    get onabort(): ((event: Event) => void) | null {
      return this.#handler;
    }
    set onabort(handler: unknown) {
      this.#handler = typeof handler === "function" ? (handler as (event: Event) => void) : null;
      addListener(this, "abort", this.#runHandler, false);
    }
    /** One function, so that it is registered once. */
    readonly #runHandler = (event: Event): void => {
      if (this.#handler !== null) ReflectApply(this.#handler, this, [event]);
    };
    throwIfAborted(): void {
      if (this.#aborted) throw this.#reason;
    }

    static abort(reason?: unknown): AbortSignal {
      const signal = new AbortSignal(KEY);
      abortSignal(signal, reason);
      return signal;
    }

    static timeout(milliseconds: unknown): AbortSignal {
      const signal = new AbortSignal(KEY);
      startTimer("AbortSignal.timeout", milliseconds, () => {
        abortSignal(signal, makeDomException("The operation timed out", "TimeoutError"));
      });
      return signal;
    }

    static any(signals: Iterable<AbortSignal>): AbortSignal {
      const joined = new AbortSignal(KEY);
      for (const signal of signals) {
        if (!onAbort(signal, () => abortSignal(joined, signal.#reason))) abortSignal(joined, signal.#reason);
      }
      return joined;
    }
  }

  class AbortController {
    readonly signal: AbortSignal = new AbortSignal(KEY);
    abort(reason?: unknown): void {
      abortSignal(this.signal, reason);
    }
  }

  const classes = { __proto__: null as never, Event, CustomEvent, EventTarget, AbortController, AbortSignal };
  for (const name in classes) {
    defineValue(classes[name as keyof typeof classes].prototype, SymbolToStringTag, name, false);
  }
  return { classes, abortSignal, createAbortSignal: (): AbortSignal => new AbortSignal(KEY) };
}

type EventClasses = ReturnType<typeof makeEventClasses>;
export type AbortSignal = ReturnType<EventClasses["createAbortSignal"]>;

let made: EventClasses | undefined;
function eventClasses(): EventClasses {
  made ??= makeEventClasses();
  return made;
}

export function createAbortSignal(): AbortSignal {
  return eventClasses().createAbortSignal();
}

export function abortSignal(signal: AbortSignal, reason: unknown): void {
  eventClasses().abortSignal(signal, reason);
}

export function installEvents(): void {
  defineLazyGlobals(
    ["Event", "CustomEvent", "EventTarget", "AbortController", "AbortSignal"],
    () => eventClasses().classes,
  );
}
