// One circuit breaker: a state machine that decides whether a failing source is called. The caller passes the time.
import type { ErrorCode } from "../../../sandbox/contract/errors.ts";

/** `closed`: the source is called. `open`: it is not called. `half-open`: one call is running as a probe. */
export const CIRCUIT_STATES = ["closed", "open", "half-open"] as const;
/** State of a source's circuit: `closed` (calls pass), `open` (calls fail at once) or `half-open` (one call probes the source). */
export type CircuitState = (typeof CIRCUIT_STATES)[number];

/** Evidence of a call's outcome about its source. `unknown`: it ended for other reasons, such as cancellation or a full queue. */
export type CircuitEvidence = { readonly kind: "up" | "unknown" } | { readonly kind: "down"; readonly code: ErrorCode };

export interface CircuitOptions {
  /** Number of consecutive failures after which the circuit opens. */
  readonly failures: number;
  /** Time in ms that the circuit is open at first. Each failed probe doubles it. */
  readonly openMs: number;
  /** Longest time in ms that the circuit is open. */
  readonly maxOpenMs: number;
}

/** Failures further apart than this, in ms, are not consecutive. The longest call takes half of it. */
const STALE_MS = 600_000;

/** Permission to call the source. The outcome counts only if the circuit has not changed its state meanwhile. */
export interface CircuitAdmission {
  readonly isProbe: boolean;
  readonly epoch: number;
}

/** All times are in ms, by the clock of the caller. */
export class Circuit {
  readonly #options: CircuitOptions;
  #state: CircuitState = "closed";
  #failures = 0;
  #openMs: number;
  #opensUntil = 0;
  /** Changes with the state, so that outcomes of calls that began in an earlier state are ignored. */
  #epoch = 0;
  #rejected = 0;
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

  /** Number of consecutive failures, including probes. */
  get failures(): number {
    return this.#failures;
  }

  /** Number of calls that were rejected since the circuit opened. */
  get rejected(): number {
    return this.#rejected;
  }

  /** Time of the last change between closed and not closed. */
  get since(): number {
    return this.#since;
  }

  get lastFailure(): { readonly code: ErrorCode; readonly at: number } | undefined {
    return this.#lastFailure;
  }

  /** Time from which one call is let through as a probe. Undefined unless the circuit is open. */
  get nextProbeAt(): number | undefined {
    return this.#state === "open" ? this.#opensUntil : undefined;
  }

  /** Returns whether the circuit has no effect any more and can be removed. */
  isStale(now: number): boolean {
    return this.#state === "closed" && (this.#failures === 0 || now - (this.#lastFailure?.at ?? 0) > STALE_MS);
  }

  /** Returns permission to call the source, or the least time in ms to wait. With permission, call `record` once with the outcome. */
  admit(now: number): CircuitAdmission | { readonly retryAfterMs: number } {
    if (this.#state === "closed") return { isProbe: false, epoch: this.#epoch };
    if (this.#state === "open" && now >= this.#opensUntil) {
      this.#enter("half-open", now);
      return { isProbe: true, epoch: this.#epoch };
    }
    this.#rejected += 1;
    // The duration of a running probe is not known.
    return { retryAfterMs: this.#state === "open" ? Math.ceil(this.#opensUntil - now) : this.#options.openMs };
  }

  record({ epoch, isProbe }: CircuitAdmission, evidence: CircuitEvidence, now: number): void {
    if (epoch !== this.#epoch) return;
    if (evidence.kind === "up") {
      this.#failures = 0;
      this.#openMs = this.#options.openMs;
      if (isProbe) this.#enter("closed", now);
    } else if (evidence.kind === "down") {
      const isInRow = now - (this.#lastFailure?.at ?? now) <= STALE_MS;
      this.#failures = isInRow ? this.#failures + 1 : 1;
      this.#lastFailure = { code: evidence.code, at: now };
      if (isProbe) this.#openMs = Math.min(this.#options.maxOpenMs, this.#openMs * 2);
      if (isProbe || this.#failures >= this.#options.failures) this.#open(now, this.#openMs);
    } else if (isProbe) {
      // The probe was inconclusive: the next call is the probe.
      this.#open(now, 0);
    }
  }

  #open(now: number, forMs: number): void {
    this.#opensUntil = now + forMs;
    this.#enter("open", now);
  }

  #enter(state: CircuitState, now: number): void {
    if (state === "closed") this.#rejected = 0;
    // A failed probe does not start a new period.
    if (state === "closed" || this.#state === "closed") this.#since = now;
    this.#state = state;
    this.#epoch += 1;
  }
}
