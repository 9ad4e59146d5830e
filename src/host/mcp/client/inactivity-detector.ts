// Detects a server program that runs but no longer answers: it sent no message for the timeout of a call, and consecutive calls timed out
// meanwhile. A single slow call does not suffice.

/** Number of consecutive calls that must time out. */
const CALLS = 2;

/** All times are on the clock of `performance.now()`. */
export class InactivityDetector {
  /** Start of the first call after the latest message. */
  #since = Number.NEGATIVE_INFINITY;
  #calls = 0;
  #countedAt = Number.NEGATIVE_INFINITY;

  /** Records the start of a call. */
  begin(begunAt: number, lastMessageAt: number): void {
    if (lastMessageAt < this.#since) return;
    this.#since = begunAt;
    this.#calls = 0;
  }

  /** Records the timeout of a call. Returns whether the program is inactive. */
  isInactive(begunAt: number, lastMessageAt: number, timeoutMs: number): boolean {
    if (lastMessageAt >= this.#since) return false;
    const now = performance.now();
    // Concurrent calls count as one.
    if (begunAt >= this.#countedAt) {
      this.#calls += 1;
      this.#countedAt = now;
    }
    return this.#calls >= CALLS && now - this.#since >= timeoutMs;
  }
}
