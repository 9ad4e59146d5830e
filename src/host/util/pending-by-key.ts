// Tracks pending promises by key. The deletion of a tenant waits for the tenant's promises.

export class PendingByKey {
  readonly #pending = new Map<string, Set<Promise<unknown>>>();

  /** Returns the promise and tracks it until it settles. */
  track<Value>(key: string, promise: Promise<Value>): Promise<Value> {
    const all = this.#pending.get(key) ?? new Set();
    this.#pending.set(key, all.add(promise));
    const forget = (): void => {
      all.delete(promise);
      if (all.size === 0 && this.#pending.get(key) === all) this.#pending.delete(key);
    };
    promise.then(forget, forget);
    return promise;
  }

  /** Resolves when all promises that are pending for a key now have settled. Promises added later are not awaited. */
  async settled(key: string): Promise<void> {
    await Promise.allSettled([...(this.#pending.get(key) ?? [])]);
  }
}
