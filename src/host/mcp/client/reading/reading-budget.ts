// Limits the time that the host spends on reading messages of all upstream servers together to a slice of each period. Servers that flood
// the host block the event loop for one slice at a time, and the rest of each period is left for other work.

/** Time in ms per period in which messages are read. */
const SLICE_MS = 4;
/** Length of a period, in ms. */
const PERIOD_MS = 8;
/** Estimated time in ms that the SDK's client spends on one message, in addition to its parsing. */
const MESSAGE_MS = 0.05;

export class ReadingBudget {
  #leftMs = SLICE_MS;
  #periodEnds = Number.NEGATIVE_INFINITY;
  readonly #waiting: (() => void)[] = [];
  #isWaking = false;

  /**
   * Charges the time since `began` (on the clock of `performance.now()`), and an estimated time for each message.
   * @returns a promise that resolves when reading may continue; undefined if it may continue at once
   */
  charge(began: number, messages = 0): Promise<void> | undefined {
    const now = performance.now();
    if (now >= this.#periodEnds && this.#waiting.length === 0) this.#begin(now);
    this.#leftMs -= now - began + messages * MESSAGE_MS;
    if (this.#leftMs > 0) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    this.#wakeLater();
    return promise;
  }

  #begin(now: number): void {
    this.#leftMs = SLICE_MS;
    this.#periodEnds = now + PERIOD_MS;
  }

  #wakeLater(): void {
    if (this.#isWaking) return;
    this.#isWaking = true;
    const delayMs = Math.max(1, this.#periodEnds - performance.now());
    setTimeout(() => {
      this.#begin(performance.now());
      this.#wake();
    }, delayMs).unref();
  }

  /** Resumes one reader in each turn of the event loop, until the slice is used up. */
  #wake(): void {
    this.#isWaking = false;
    if (this.#leftMs <= 0) {
      this.#wakeLater();
      return;
    }
    this.#waiting.shift()?.();
    if (this.#waiting.length === 0) return;
    this.#isWaking = true;
    setImmediate(() => this.#wake());
  }
}

/** The budget of the whole process, whose event loop all servers share. */
export const readingBudget: ReadingBudget = new ReadingBudget();
