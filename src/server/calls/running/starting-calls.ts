// The calls that a server has accepted and that have no slot yet. A server that stops waits for these before it closes its slots, so that a call
// which was just accepted does not fail.
import { setTimeout as sleep } from "node:timers/promises";

export class StartingCalls {
  readonly #ids = new Set<string>();
  #none: PromiseWithResolvers<void> | undefined;

  /** Adds a call that was accepted. It is removed by {@link started}, or when the returned object is disposed of. */
  add(callId: string): Disposable {
    this.#ids.add(callId);
    return { [Symbol.dispose]: () => this.started(callId) };
  }

  /** Removes a call that runs now. */
  started(callId: string): void {
    this.#ids.delete(callId);
    if (this.#ids.size === 0) this.#none?.resolve();
  }

  /** Resolves when all calls have started or ended. @param maxMs longest wait */
  async settled(maxMs: number): Promise<void> {
    if (this.#ids.size === 0) return;
    this.#none ??= Promise.withResolvers();
    await Promise.race([this.#none.promise, sleep(maxMs, undefined, { ref: false })]);
    this.#none = undefined;
  }
}
