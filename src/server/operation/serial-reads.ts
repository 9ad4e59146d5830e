// Long reads, such as searches: one at a time for each tenant. With SQLite, a query holds the event loop, so several of them would delay all
// tenants.
import { RequestError } from "../http/request-error.ts";

/** Reads of one tenant that may wait. */
const MAX_WAITING = 8;
const RETRY_SECONDS = 1;

interface ReadQueue {
  waiting: number;
  last: Promise<unknown>;
}

export class SerialReads {
  readonly #queues = new Map<string, ReadQueue>();

  /**
   * Reads after the earlier reads of this tenant.
   * @param tenantId undefined for a read that concerns all tenants
   * @throws {RequestError} RATE_LIMITED if too many are waiting
   */
  async run<Result>(tenantId: string | undefined, read: () => Promise<Result>): Promise<Result> {
    // No tenant has this id.
    const key = tenantId ?? "*";
    const queue = this.#queues.get(key) ?? { waiting: 0, last: Promise.resolve() };
    if (queue.waiting > MAX_WAITING) {
      const message = `At most ${MAX_WAITING} searches, overviews, trees and timelines of a tenant may wait`;
      throw new RequestError("RATE_LIMITED", message, { retryAfterSeconds: RETRY_SECONDS });
    }
    this.#queues.set(key, queue);
    queue.waiting += 1;
    const running = queue.last.then(read);
    queue.last = running.catch(() => {});
    try {
      return await running;
    } finally {
      queue.waiting -= 1;
      if (queue.waiting === 0) this.#queues.delete(key);
    }
  }
}
