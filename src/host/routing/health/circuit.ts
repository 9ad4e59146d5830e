// One circuit: what is known of a source that keeps failing, and whether it is asked at all. A state machine; its clock is handed in.
import type { ErrorCode } from "../../../sandbox/contract/errors.ts";

/** `closed`: it is asked. `open`: it is not. `half-open`: one call is on its way to it, to see whether it is there again. */
export const CIRCUIT_STATES = ["closed", "open", "half-open"] as const;
export type CircuitState = (typeof CIRCUIT_STATES)[number];

/** What a call tells of its source. `unknown`: it ended for reasons of its own (cancelled, refused, no place to run). */
export type CircuitEvidence = { readonly is: "up" | "unknown" } | { readonly is: "down"; readonly code: ErrorCode };

export interface CircuitOptions {
  /** Failures in a row after which the source is not asked for a while. */
  readonly failures: number;
  /** How long at first; each probe that fails doubles it. */
  readonly openMs: number;
  readonly maxOpenMs: number;
}

/** Failures so far apart are not in a row: the longest call takes half of it. */
const FORGET_MS = 600_000;

/** A call's leave to ask the source. What it brings back counts only while the circuit is as it was. */
export interface Admission {
  readonly isProbe: boolean;
  readonly epoch: number;
}

/** All times are those of the clock that is handed in, in ms. */
export class Circuit {
  readonly #options: CircuitOptions;
  #state: CircuitState = "closed";
  #failures = 0;
  #openMs: number;
  #opensUntil = 0;
  /** Changes with the state: what was begun in another one is no longer news. */
  #epoch = 0;
  #refused = 0;
  #since: number;
  #lastFailure: { readonly code: ErrorCode; readonly at: number } | undefined;

  constructor(options: CircuitOptions, now: number) {
    this.#options = options;
    this.#openMs = options.openMs;
    this.#since = now;
  }

  get state(): CircuitState {
    return this.#state;
  }

  /** In a row; those of probes count too. */
  get failures(): number {
    return this.#failures;
  }

  /** Calls that were not let through since it opened. */
  get refused(): number {
    return this.#refused;
  }

  /** When it came into this state. */
  get since(): number {
    return this.#since;
  }

  get lastFailure(): { readonly code: ErrorCode; readonly at: number } | undefined {
    return this.#lastFailure;
  }

  /** When a call is let through again to see; undefined unless it is open. */
  get nextProbeAt(): number | undefined {
    return this.#state === "open" ? this.#opensUntil : undefined;
  }

  /** Nothing is remembered that matters any more. */
  isForgotten(now: number): boolean {
    return this.#state === "closed" && (this.#failures === 0 || now - (this.#lastFailure?.at ?? 0) > FORGET_MS);
  }

  /** Leave to ask the source, or how many ms to wait at least. Whoever has leave says with `record` how it went, once. */
  admit(now: number): Admission | { readonly retryAfterMs: number } {
    if (this.#state === "closed") return { isProbe: false, epoch: this.#epoch };
    if (this.#state === "open" && now >= this.#opensUntil) {
      this.#enter("half-open", now);
      return { isProbe: true, epoch: this.#epoch };
    }
    this.#refused += 1;
    // While a probe is on its way nobody knows how long it takes.
    return { retryAfterMs: this.#state === "open" ? Math.ceil(this.#opensUntil - now) : this.#options.openMs };
  }

  record({ epoch, isProbe }: Admission, evidence: CircuitEvidence, now: number): void {
    if (epoch !== this.#epoch) return;
    if (evidence.is === "up") {
      this.#failures = 0;
      this.#openMs = this.#options.openMs;
      if (isProbe) this.#enter("closed", now);
    } else if (evidence.is === "down") {
      const isInRow = now - (this.#lastFailure?.at ?? now) <= FORGET_MS;
      this.#failures = isInRow ? this.#failures + 1 : 1;
      this.#lastFailure = { code: evidence.code, at: now };
      if (isProbe) this.#openMs = Math.min(this.#options.maxOpenMs, this.#openMs * 2);
      if (isProbe || this.#failures >= this.#options.failures) this.#open(now, this.#openMs);
    } else if (isProbe) {
      // It has found nothing out: the next call is the probe.
      this.#open(now, 0);
    }
  }

  #open(now: number, forMs: number): void {
    this.#opensUntil = now + forMs;
    this.#enter("open", now);
  }

  #enter(state: CircuitState, now: number): void {
    if (state === "closed") this.#refused = 0;
    // A probe does not begin a new time of being open.
    if (state === "closed" || this.#state === "closed") this.#since = now;
    this.#state = state;
    this.#epoch += 1;
  }
}
