// AbortController and AbortSignal (DOM standard, "aborting ongoing activities").

import { describeValue } from "../../error-text.ts";
import { createDomException } from "../../module-loader.ts";
import { append, MathMin, NumberConstructor, NumberIsFinite, TypeErrorConstructor } from "../../primordials.ts";
import { startTimer } from "../../timers.ts";
import { pickFields, showAs } from "../fetch/fetch-inspect.ts";
import { defineInterface } from "../shared/interface.ts";
import { dispatch, Event, EventTarget, getHandler, setHandler } from "./events.ts";

/** Longest delay in ms that the worker's timers accept. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** Converts as Web IDL's [EnforceRange] unsigned long long. */
function toDelay(milliseconds: unknown): number {
  const delay = NumberConstructor(milliseconds);
  if (NumberIsFinite(delay) && delay > -1 && delay <= NumberConstructor.MAX_SAFE_INTEGER)
    return MathMin(delay, MAX_DELAY_MS);
  throw new TypeErrorConstructor(`AbortSignal.timeout expected milliseconds, got ${describeValue(milliseconds)}`);
}

const KEY = {};
export let abortSignal: (signal: AbortSignal, reason: unknown) => void;
export let onAbort: (signal: unknown, algorithm: () => void) => boolean;
let isSignal: (value: unknown) => value is AbortSignal;

export class AbortSignal extends EventTarget {
  #aborted = false;
  #reason: unknown = undefined;
  #algorithms: (() => void)[] = [];
  /** Signals that `AbortSignal.any` made from this one, and their sources. A source never depends on other signals itself. */
  readonly #dependents: AbortSignal[] = [];
  #sources: AbortSignal[] | undefined;

  static {
    isSignal = (value): value is AbortSignal => typeof value === "object" && value !== null && #aborted in value;
    onAbort = (signal, algorithm) => {
      if (!isSignal(signal)) throw new TypeErrorConstructor(`Expected an AbortSignal, got ${describeValue(signal)}`);
      if (!signal.#aborted) append(signal.#algorithms, algorithm);
      return !signal.#aborted;
    };
    const runSteps = (signal: AbortSignal): void => {
      const algorithms = signal.#algorithms;
      signal.#algorithms = [];
      for (let index = 0; index < algorithms.length; index += 1) algorithms[index]?.();
      dispatch(signal, new Event("abort"), true);
    };
    // All dependents are marked as aborted before the first event is dispatched.
    abortSignal = (signal, reason) => {
      if (signal.#aborted) return;
      const affected = [signal];
      for (let index = 0; index < signal.#dependents.length; index += 1) {
        const dependent = signal.#dependents[index] as AbortSignal;
        if (!dependent.#aborted) append(affected, dependent);
      }
      const shared = reason === undefined ? createDomException("This operation was aborted", "AbortError") : reason;
      for (let index = 0; index < affected.length; index += 1) {
        const one = affected[index] as AbortSignal;
        one.#aborted = true;
        one.#reason = shared;
      }
      for (let index = 0; index < affected.length; index += 1) runSteps(affected[index] as AbortSignal);
    };
  }

  constructor(key: unknown = undefined) {
    super();
    if (key !== KEY) throw new TypeErrorConstructor("AbortSignal cannot be constructed; use AbortController");
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
  get onabort(): unknown {
    return getHandler(this, "abort");
  }
  set onabort(handler: unknown) {
    setHandler(this, "abort", handler);
  }

  static abort(reason: unknown = undefined): AbortSignal {
    const signal = new AbortSignal(KEY);
    abortSignal(signal, reason);
    return signal;
  }

  static timeout(milliseconds: unknown): AbortSignal {
    const delay = toDelay(milliseconds);
    const signal = new AbortSignal(KEY);
    startTimer("AbortSignal.timeout", delay, () => {
      abortSignal(signal, createDomException("The operation was aborted due to timeout", "TimeoutError"));
    });
    return signal;
  }

  static any(signals: unknown): AbortSignal {
    const given: AbortSignal[] = [];
    for (const signal of signals as Iterable<unknown>) {
      if (!isSignal(signal)) throw new TypeErrorConstructor("AbortSignal.any expected a list of AbortSignals");
      append(given, signal);
    }
    const joined = new AbortSignal(KEY);
    const sources: AbortSignal[] = [];
    joined.#sources = sources;
    for (let index = 0; index < given.length; index += 1) {
      const signal = given[index] as AbortSignal;
      if (!signal.#aborted) continue;
      joined.#aborted = true;
      joined.#reason = signal.#reason;
      return joined;
    }
    for (let index = 0; index < given.length; index += 1) {
      const signal = given[index] as AbortSignal;
      const roots = signal.#sources ?? [signal];
      for (let at = 0; at < roots.length; at += 1) AbortSignal.#depend(joined, sources, roots[at] as AbortSignal);
    }
    return joined;
  }

  static #depend(joined: AbortSignal, sources: AbortSignal[], root: AbortSignal): void {
    for (let index = 0; index < sources.length; index += 1) if (sources[index] === root) return;
    append(sources, root);
    append(root.#dependents, joined);
  }
}

export class AbortController {
  readonly #signal = new AbortSignal(KEY);
  get signal(): AbortSignal {
    return this.#signal;
  }
  abort(reason: unknown = undefined): void {
    abortSignal(this.#signal, reason);
  }
}

defineInterface("AbortSignal", AbortSignal);
defineInterface("AbortController", AbortController);

export const createAbortSignal = (): AbortSignal => new AbortSignal(KEY);

showAs("AbortSignal", AbortSignal, (signal) => pickFields(signal, ["aborted"]));
showAs("AbortController", AbortController, (controller) => pickFields(controller, ["signal"]));
