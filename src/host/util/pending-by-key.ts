// Promises that have not settled, by key: what a tenant's deletion has to wait for.

export class PendingByKey {
  readonly #pending = new Map<string, Set<Promise<unknown>>>();

  /** Returns the promise, and holds it until it has settled. */
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

  /** Resolves when all promises of a key that are pending now have settled. Those that are added meanwhile are not waited for. */
  async settled(key: string): Promise<void> {
    await Promise.allSettled([...(this.#pending.get(key) ?? [])]);
  }
}
