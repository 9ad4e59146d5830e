// A token bucket. It limits how many messages a server may send unprompted: a burst, and a rate per second.

export interface TokenBucketOptions {
  readonly burst: number;
  readonly perSecond: number;
}

export class TokenBucket {
  readonly #burst: number;
  readonly #perSecond: number;
  #left: number;
  #countedAt = performance.now();

  constructor({ burst, perSecond }: TokenBucketOptions) {
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#left = burst;
  }

  /** Takes one token. Returns false if there is none. */
  take(): boolean {
    const now = performance.now();
    this.#left = Math.min(this.#burst, this.#left + ((now - this.#countedAt) / 1_000) * this.#perSecond);
    this.#countedAt = now;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}
