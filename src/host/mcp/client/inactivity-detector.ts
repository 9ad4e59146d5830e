// When a program that runs is as good as dead: it has said nothing at all since it was asked, for as long as one call may wait, and calls
// that came one after the other were given up meanwhile. One slow call alone says nothing of it.

/** One after the other. */
const CALLS = 2;

/** All times are by performance.now(). */
export class InactivityDetector {
  /** When it was first asked for something after it had been heard last. */
  #since = Number.NEGATIVE_INFINITY;
  #calls = 0;
  #countedAt = Number.NEGATIVE_INFINITY;

  /** A call is on its way. */
  asked(begunAt: number, heardAt: number): void {
    if (heardAt < this.#since) return;
    this.#since = begunAt;
    this.#calls = 0;
  }

  /** A call was given up: whether nobody need wait for an answer any longer. */
  lasts(begunAt: number, heardAt: number, timeoutMs: number): boolean {
    if (heardAt >= this.#since) return false;
    const now = performance.now();
    // Calls that were on their way at one time are one.
    if (begunAt >= this.#countedAt) {
      this.#calls += 1;
      this.#countedAt = now;
    }
    return this.#calls >= CALLS && now - this.#since >= timeoutMs;
  }
}
