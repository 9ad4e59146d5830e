// Work that no caller waits for. Its failures are reported, and closing waits for what is under way.
import { setTimeout as sleep } from "node:timers/promises";

export class BackgroundWork {
  readonly #onError: (error: unknown) => void;
  readonly #running = new Set<Promise<void>>();

  /** @param onError receives what the work throws */
  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /** Begins some work. Returns a promise of its end, which never rejects. */
  run(work: () => Promise<void>): Promise<void> {
    const running = work()
      .catch(this.#onError)
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
    return running;
  }

  /** Resolves when what is under way has ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#running);
  }
}

/** Waits, but not longer than until the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {});
}
