// How much of the host's time all upstream servers together get for reading what they send: a slice of each period. A server that floods
// the host, or a hundred of them, hold the event loop for one slice at a time, and the rest of each period is for other work.

/** Time of each period in which messages are read, in ms. */
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
   * Charges the time since `began` (by performance.now()), and that of as many messages.
   * @returns a promise that resolves when there is time again; undefined where reading may go on at once
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

  /** One reader in each turn of the event loop, for as long as there is time. */
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

/** One for the whole process: the event loop is the process's. */
export const readingBudget: ReadingBudget = new ReadingBudget();
