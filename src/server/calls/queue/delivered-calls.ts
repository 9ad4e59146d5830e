// Decides what happens to the messages that the work queue delivers: a call that is queued and due is claimed, one that has ended is acknowledged,
// and any other is delivered again when it may be this server's turn.
import type { WorkDelivery } from "../../../host/fleet/work-stream.ts";
import type { Db } from "../../database/open-database.ts";
import { type CallRow, findCallsById } from "../../records/calls/calls.ts";

/** Time in ms after which a message is delivered again that met a change of its call, or a database that failed. */
const AGAIN_MS = 500;
/** Longest time in ms between two looks at a call that another server runs. */
const ELSEWHERE_MS = 15_000;

export interface DeliveredCallsDependencies {
  readonly db: Db;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Keeps the message of a call that runs in this process until the call ends. Returns false if it does not run here. */
  readonly keep: (delivery: WorkDelivery) => boolean;
  /** Claims calls, and runs them with their messages. Returns the ids of those that were claimed. */
  readonly claim: (
    ids: readonly string[],
    deliveries: ReadonlyMap<string, WorkDelivery>,
  ) => Promise<ReadonlySet<string>>;
  /** Decides about a call whose process is gone. Returns whether it is in the queue again. */
  readonly recover: (row: CallRow) => Promise<boolean>;
}

export class DeliveredCalls {
  readonly #dependencies: DeliveredCallsDependencies;

  constructor(dependencies: DeliveredCallsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Claims the calls that may run. Each message is acknowledged, kept with its call, or delivered again. */
  async take(deliveries: readonly WorkDelivery[]): Promise<void> {
    const open = new Map<string, WorkDelivery>();
    for (const delivery of deliveries) {
      if (open.has(delivery.id)) delivery.later(AGAIN_MS);
      else if (!this.#dependencies.keep(delivery)) open.set(delivery.id, delivery);
    }
    try {
      await this.#claim(open);
      if (open.size === 0) return;
      const rows = await findCallsById(this.#dependencies.db, [...open.keys()]);
      const byId = new Map(rows.map((row) => [row.id, row]));
      for (const [id, delivery] of open) {
        await this.#settle(delivery, byId.get(id));
        open.delete(id);
      }
    } finally {
      // Those that a failure has left over.
      for (const delivery of open.values()) delivery.later(AGAIN_MS);
    }
  }

  async #claim(open: Map<string, WorkDelivery>): Promise<void> {
    const ids = [...open.keys()];
    if (ids.length === 0) return;
    for (const id of await this.#dependencies.claim(ids, open)) open.delete(id);
  }

  async #settle(delivery: WorkDelivery, row: CallRow | undefined): Promise<void> {
    const now = this.#dependencies.now();
    if (row?.state === "queued") delivery.later(Math.max(AGAIN_MS, (row.run_at ?? now) - now));
    else if (row?.state !== "running") delivery.ack();
    else {
      const leftMs = (row.lease_until ?? now) - now;
      if (leftMs > 0) delivery.later(Math.min(ELSEWHERE_MS, leftMs + AGAIN_MS));
      else if (await this.#dependencies.recover(row)) delivery.later(0);
      else delivery.ack();
    }
  }
}
