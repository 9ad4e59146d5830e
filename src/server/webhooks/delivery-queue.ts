// Signs webhook deliveries and sends them, to public addresses only, with retries. A delivery that fails for two days stays in the log as
// failed, and can be sent again by hand.
import { Webhook as Signer } from "standardwebhooks";
import { type GuardedRequest, type GuardedResponse, sendGuardedRequest } from "../../host/index.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import type { DeliveriesTable, WebhooksTable } from "../database/tables/event-tables.ts";
import {
  claimDeliveries,
  type DeliveryOutcome,
  findWebhook,
  storeAttempt,
  updateWebhook,
} from "../records/events/webhooks.ts";
import type { MasterKey } from "../secrets/master-key.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** Delays in ms before the second and later attempts, as Standard Webhooks recommends. */
export const RETRY_DELAYS: readonly number[] = [
  ...[5 * SECOND_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 5 * HOUR_MS],
  ...[10 * HOUR_MS, 14 * HOUR_MS, 20 * HOUR_MS],
];
const REQUEST_MS = 15_000;
const LEASE_MS = 45_000;
const POLL_MS = 500;
const MAX_SENDING = 16;
/** Maximum number of deliveries of one tenant at a time, so that its slow receivers do not delay others. */
const MAX_SENDING_PER_TENANT = 4;
/** Status by which a receiver says that it wants no more deliveries. */
const GONE = 410;

export interface DeliveryQueueDependencies {
  readonly database: OpenDatabase;
  readonly masterKey: MasterKey;
  /** Addresses that webhooks may reach although they are not public. */
  readonly addresses: readonly string[];
  readonly onError: (error: unknown) => void;
  /** @default RETRY_DELAYS */
  readonly delays?: readonly number[] | undefined;
  /** @default sendGuardedRequest */
  readonly send?: ((request: GuardedRequest) => Promise<GuardedResponse>) | undefined;
}

/** Creates the signer of a webhook's secret. */
export const toSigner = (secret: string): Signer => new Signer(secret);

export class DeliveryQueue implements AsyncDisposable {
  readonly #dependencies: DeliveryQueueDependencies;
  readonly #delays: readonly number[];
  readonly #sending = new Map<string, { readonly tenantId: string; readonly done: Promise<void> }>();
  readonly #stop = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #claiming: Promise<void> | undefined;

  constructor(dependencies: DeliveryQueueDependencies) {
    this.#dependencies = dependencies;
    this.#delays = dependencies.delays ?? RETRY_DELAYS;
  }

  start(): void {
    this.#timer = setInterval(() => this.notify(), POLL_MS);
    this.notify();
  }

  /** Starts sending the deliveries that are due soon, without waiting for them. */
  notify(): void {
    if (this.#stop.signal.aborted) return;
    this.#claiming ??= this.#claim()
      .catch(this.#dependencies.onError)
      .finally(() => {
        this.#claiming = undefined;
      });
  }

  /** Stops sending. A delivery that is being sent is sent again by the next server. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    clearInterval(this.#timer);
    await this.#claiming;
    await Promise.all([...this.#sending.values()].map(({ done }) => done));
  }

  /** Returns the tenants that have no further deliveries now, and how many one of the others can have in any case. */
  #room(): { readonly busy: readonly string[]; readonly free: number } {
    const counts = [...Map.groupBy(this.#sending.values(), ({ tenantId }) => tenantId)];
    const isBusy = (all: readonly unknown[]): boolean => all.length >= MAX_SENDING_PER_TENANT;
    const left = counts.filter(([, all]) => !isBusy(all)).map(([, all]) => MAX_SENDING_PER_TENANT - all.length);
    return {
      busy: counts.filter(([, all]) => isBusy(all)).map(([tenantId]) => tenantId),
      free: Math.min(MAX_SENDING_PER_TENANT, ...left),
    };
  }

  async #claim(): Promise<void> {
    // Few at a time, so that the limit of each tenant is kept.
    for (;;) {
      const { busy, free } = this.#room();
      const limit = Math.min(free, MAX_SENDING - this.#sending.size);
      if (limit <= 0 || this.#stop.signal.aborted) return;
      const now = this.#dependencies.database.clock.now();
      const claim = { limit, now, until: now + LEASE_MS, except: busy };
      const rows = await claimDeliveries(this.#dependencies.database, claim);
      if (rows.length === 0) return;
      for (const row of rows) {
        const done = this.#sendOne(row)
          .catch(this.#dependencies.onError)
          .finally(() => {
            this.#sending.delete(row.id);
            this.notify();
          });
        this.#sending.set(row.id, { tenantId: row.tenant_id, done });
      }
    }
  }

  async #sendOne(row: DeliveriesTable): Promise<void> {
    const { database, addresses, send = sendGuardedRequest } = this.#dependencies;
    const { db } = database;
    const tenantId = row.tenant_id;
    const webhook = await findWebhook(db, tenantId, row.webhook_id);
    if (webhook === undefined || webhook.state === "disabled") {
      await storeAttempt(db, row, this.#ended(row, "failed", null, "The webhook is disabled"));
      return;
    }
    const at = new Date();
    const secret = this.#secretOf(webhook);
    if (secret === undefined) {
      const message = "The signing secret cannot be read with the server's master key: create the webhook again";
      await storeAttempt(db, row, this.#outcomeOf(row, null, message));
      return;
    }
    let status: number | null = null;
    let error: string | null = null;
    try {
      const response = await send({
        url: webhook.url,
        method: "POST",
        body: row.body,
        addresses,
        timeoutMs: REQUEST_MS,
        maxResponseBytes: 0,
        headers: {
          "content-type": "application/json",
          "user-agent": "glovebox-webhooks",
          "webhook-id": row.id,
          "webhook-timestamp": String(Math.floor(at.getTime() / SECOND_MS)),
          "webhook-signature": toSigner(secret).sign(row.id, at, row.body),
        },
        tenantId,
        signal: this.#stop.signal,
      });
      status = response.status;
    } catch (thrown) {
      // The lease ends, and the next server sends it.
      if (this.#stop.signal.aborted) return;
      error = Error.isError(thrown) ? thrown.message.slice(0, 500) : "The request failed";
    }
    if (status === GONE) await updateWebhook(db, { tenantId, id: webhook.id }, { state: "disabled" });
    await storeAttempt(db, row, this.#outcomeOf(row, status, error));
  }

  /** Returns the secret that deliveries are signed with; undefined if it was stored under another master key, or changed. */
  #secretOf({ id, tenant_id: tenantId, sealed_secret: sealed }: WebhooksTable): string | undefined {
    const { masterKey, onError } = this.#dependencies;
    try {
      return masterKey.open(sealed, { table: "webhooks", tenantId, name: id });
    } catch (thrown) {
      onError(thrown);
      return undefined;
    }
  }

  #outcomeOf(row: DeliveriesTable, status: number | null, error: string | null): DeliveryOutcome {
    if (status !== null && status >= 200 && status < 300) return this.#ended(row, "delivered", status, null);
    const message = error ?? `The receiver answered with status ${status}`;
    const delay = this.#delays[row.attempts - 1];
    if (delay === undefined || status === GONE) return this.#ended(row, "failed", status, message);
    // Spread, so that the deliveries of a receiver that was down do not arrive all at once.
    const runAt = this.#dependencies.database.clock.now() + delay * (1 + Math.random() / 10);
    return { state: "waiting", run_at: Math.round(runAt), status, error: message, ended_at: null };
  }

  #ended(
    row: DeliveriesTable,
    state: "delivered" | "failed",
    status: number | null,
    error: string | null,
  ): DeliveryOutcome {
    return { state, run_at: row.run_at, status, error, ended_at: this.#dependencies.database.clock.now() };
  }
}
