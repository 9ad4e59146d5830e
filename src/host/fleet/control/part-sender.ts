// Sends the parts of objects that one executor has requested, a few at a time: an executor that requests many at once
// fills neither the memory of the control plane nor the connection that it shares with the others.
import type { FleetConnection } from "../nats-connection.ts";

/** Parts that are sent before NATS has to confirm that it has received them. */
const CONCURRENT_PARTS = 4;

export class PartSender {
  readonly #connection: Pick<FleetConnection, "flush">;
  #waiting: (() => void)[] = [];
  #isSending = false;

  constructor(connection: Pick<FleetConnection, "flush">) {
    this.#connection = connection;
  }

  /** @param send publishes one part. It must not throw */
  add(send: () => void): void {
    this.#waiting.push(send);
    if (!this.#isSending) void this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    try {
      while (this.#waiting.length > 0) {
        const next = this.#waiting.slice(0, CONCURRENT_PARTS);
        this.#waiting = this.#waiting.slice(CONCURRENT_PARTS);
        for (const send of next) send();
        await this.#connection.flush();
      }
    } finally {
      this.#isSending = false;
    }
  }
}
