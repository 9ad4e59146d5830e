// Delays process starts of an owner whose processes keep failing. A start takes 100 ms of CPU time and blocks the host
// for milliseconds, and other owners should not pay for it.

import { setBounded } from "../../util/bounded-map.ts";

/** Failures without a delay: they may be bad luck. */
const FREE_FAILURES = 3;
const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 2_000;
/** Time in ms without a failure after which an owner's count starts again. */
const RESET_AFTER_MS = 10_000;
const MAX_OWNERS = 1_000;

interface FailureRecord {
  failures: number;
  failedAt: number;
  /** The next process may start then, by performance.now(). */
  until: number;
}

export class StartBackoff {
  readonly #records = new Map<string, FailureRecord>();

  /** Records that a process of this owner crashed or had to be killed. */
  recordFailure(owner: string, now: number): void {
    const previous = this.#records.get(owner);
    const failures = previous === undefined || now - previous.failedAt > RESET_AFTER_MS ? 1 : previous.failures + 1;
    const delayMs =
      failures <= FREE_FAILURES ? 0 : Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (failures - FREE_FAILURES - 1));
    setBounded(this.#records, owner, { failures, failedAt: now, until: now + delayMs }, MAX_OWNERS);
  }

  /** Returns how long this owner's next process has to wait, in ms. */
  delayMs(owner: string, now: number): number {
    return Math.max(0, (this.#records.get(owner)?.until ?? 0) - now);
  }
}
