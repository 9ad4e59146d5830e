// Stores webhooks and their deliveries. A delivery is stored in the same transaction as the change that it reports, so
// events match changes exactly.
import * as z from "zod";
import type { DatabaseKind } from "../../database/column-types.ts";
import type { Db } from "../../database/open-database.ts";
import { IS_ENDED_DELIVERY, IS_OPEN_DELIVERY } from "../../database/partial-indexes.ts";
import type { Changes } from "../../database/schema.ts";
import type { DeliveriesTable, WebhooksTable } from "../../database/tables/event-tables.ts";
import { createId } from "../../ids.ts";
import { parseColumn } from "../json.ts";

/** Types of events that a webhook can receive. */
export const EVENTS = [
  "call.succeeded",
  "call.failed",
  "call.cancelled",
  "version.deployed",
  "version.waiting_for_approval",
  "release.changed",
  "release.rolled_back",
  "quota.warning",
  "approval.requested",
  "approval.decided",
  "run.waiting",
] as const;
export type EventType = (typeof EVENTS)[number];
/** Sent on request, to try a webhook. */
export const TEST_EVENT = "webhook.test";

const EventsSchema = z.array(z.enum(EVENTS));

export interface WebhookRecord {
  readonly id: string;
  readonly url: string;
  readonly events: readonly EventType[];
  readonly state: WebhooksTable["state"];
  readonly createdBy: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

export const toWebhook = (row: WebhooksTable): WebhookRecord => ({
  id: row.id,
  url: row.url,
  events: parseColumn(EventsSchema, row.events, "list of events"),
  state: row.state,
  createdBy: row.created_by,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
});

export async function insertWebhook(db: Db, row: WebhooksTable): Promise<WebhookRecord> {
  await db.insertInto("webhooks").values(row).execute();
  return toWebhook(row);
}

export async function listWebhooks(db: Db, tenantId: string): Promise<readonly WebhookRecord[]> {
  const rows = await db.selectFrom("webhooks").selectAll().where("tenant_id", "=", tenantId).orderBy("id").execute();
  return rows.map(toWebhook);
}

export async function findWebhook(db: Db, tenantId: string, id: string): Promise<WebhooksTable | undefined> {
  return await db
    .selectFrom("webhooks")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .where("id", "=", id)
    .executeTakeFirst();
}

/** Changes a webhook. Returns it; undefined if there is none. */
export async function updateWebhook(
  db: Db,
  { tenantId, id }: { readonly tenantId: string; readonly id: string },
  changes: Changes<WebhooksTable, "url" | "events" | "state" | "sealed_secret">,
): Promise<WebhookRecord | undefined> {
  const row = await db
    .updateTable("webhooks")
    .set({ ...changes, updated_at: Date.now() })
    .where("tenant_id", "=", tenantId)
    .where("id", "=", id)
    .returningAll()
    .executeTakeFirst();
  return row === undefined ? undefined : toWebhook(row);
}

/** Deletes a webhook. Returns false if there is none. Its deliveries are no longer sent; delete them with {@link deleteDeliveriesOf}. */
export async function deleteWebhook(db: Db, tenantId: string, id: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom("webhooks")
    .where("tenant_id", "=", tenantId)
    .where("id", "=", id)
    .executeTakeFirst();
  return numDeletedRows > 0n;
}

export interface WebhookEvent {
  readonly tenantId: string;
  readonly type: EventType;
  readonly data: object;
}

function toDelivery(
  { tenant_id, id }: Pick<WebhooksTable, "tenant_id" | "id">,
  type: string,
  data: object,
): DeliveriesTable {
  const now = Date.now();
  return {
    id: createId("delivery", now),
    tenant_id,
    webhook_id: id,
    event: type,
    body: JSON.stringify({ type, timestamp: new Date(now).toISOString(), data }),
    state: "waiting",
    attempts: 0,
    run_at: now,
    lease_until: null,
    fence: 0,
    status: null,
    error: null,
    created_at: now,
    ended_at: null,
  };
}

const ROWS_PER_INSERT = 200;

/**
 * Stores a delivery of each event for each webhook that receives it. Call it with the transaction of what the events report.
 * @returns how many deliveries were stored
 */
export async function emitEvents(db: Db, events: readonly WebhookEvent[]): Promise<number> {
  const tenants = [...new Set(events.map(({ tenantId }) => tenantId))];
  if (tenants.length === 0) return 0;
  const rows = await db
    .selectFrom("webhooks")
    .selectAll()
    .where("tenant_id", "in", tenants)
    .where("state", "=", "active")
    .execute();
  const deliveries = events.flatMap(({ tenantId, type, data }) =>
    rows
      .filter((row) => row.tenant_id === tenantId && toWebhook(row).events.includes(type))
      .map((row) => toDelivery(row, type, data)),
  );
  for (let start = 0; start < deliveries.length; start += ROWS_PER_INSERT) {
    await db
      .insertInto("deliveries")
      .values(deliveries.slice(start, start + ROWS_PER_INSERT))
      .execute();
  }
  return deliveries.length;
}

/** Stores a delivery that tries a webhook. */
export async function insertTestDelivery(db: Db, webhook: WebhooksTable): Promise<DeliveriesTable> {
  const row = toDelivery(webhook, TEST_EVENT, { webhookId: webhook.id });
  await db.insertInto("deliveries").values(row).execute();
  return row;
}

/** Lists the newest deliveries of a webhook first. */
export async function listDeliveries(
  db: Db,
  { tenantId, webhookId }: { readonly tenantId: string; readonly webhookId: string },
  { before, limit }: { readonly before?: string | undefined; readonly limit: number },
): Promise<readonly DeliveriesTable[]> {
  let query = db
    .selectFrom("deliveries")
    .selectAll()
    .where("tenant_id", "=", tenantId)
    .where("webhook_id", "=", webhookId)
    .orderBy("id", "desc")
    .limit(limit);
  if (before !== undefined) query = query.where("id", "<", before);
  return await query.execute();
}

/** Puts a delivery that has ended back into the queue. Returns false if there is none, or it has not ended. */
export async function redeliver(
  db: Db,
  { tenantId, webhookId, id }: { readonly tenantId: string; readonly webhookId: string; readonly id: string },
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("deliveries")
    .set({ state: "waiting", attempts: 0, run_at: Date.now(), ended_at: null })
    .where("tenant_id", "=", tenantId)
    .where("webhook_id", "=", webhookId)
    .where("id", "=", id)
    .where("state", "in", ["delivered", "failed"])
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

interface DeliveryClaim {
  readonly limit: number;
  /** Time at which the claim ends. */
  readonly until: number;
  /** Tenants whose deliveries are left. */
  readonly except: readonly string[];
  /** Default: the time of this machine. */
  readonly now?: number;
}

/** Claims deliveries that are due, the oldest first, also those whose server has died. */
export async function claimDeliveries(
  { db, kind }: { readonly db: Db; readonly kind: DatabaseKind },
  { limit, until, except, now = Date.now() }: DeliveryClaim,
): Promise<readonly DeliveriesTable[]> {
  return await db
    .updateTable("deliveries")
    .set((column) => ({
      state: "sending",
      lease_until: until,
      fence: column("fence", "+", 1),
      attempts: column("attempts", "+", 1),
    }))
    .where("id", "in", (query) => {
      let due = query
        .selectFrom("deliveries")
        .select("id")
        .where(IS_OPEN_DELIVERY)
        .where(({ eb, or, and }) =>
          or([
            // A new one is due at once, whatever the clock of the process that has added it shows.
            and([eb("state", "=", "waiting"), or([eb("run_at", "<=", now), eb("attempts", "=", 0)])]),
            and([eb("state", "=", "sending"), eb("lease_until", "<", now)]),
          ]),
        )
        .orderBy("run_at")
        .orderBy("id")
        .limit(limit);
      if (except.length > 0) due = due.where("tenant_id", "not in", except);
      return kind === "postgres" ? due.forUpdate().skipLocked() : due;
    })
    .returningAll()
    .execute();
}

export type DeliveryOutcome = Pick<DeliveriesTable, "state" | "run_at" | "status" | "error" | "ended_at">;

/** Stores the outcome of an attempt, unless another server has claimed the delivery meanwhile. */
export async function storeAttempt(
  db: Db,
  { id, fence }: Pick<DeliveriesTable, "id" | "fence">,
  outcome: DeliveryOutcome,
): Promise<void> {
  await db
    .updateTable("deliveries")
    .set({ ...outcome, lease_until: null })
    .where("id", "=", id)
    .where("fence", "=", fence)
    .where("state", "=", "sending")
    .execute();
}

const deliveriesOf = (db: Db, tenantId: string) =>
  db.selectFrom("deliveries").select("id").where("tenant_id", "=", tenantId);

async function deleteDeliveries(db: Db, selected: ReturnType<typeof deliveriesOf>): Promise<number> {
  const { numDeletedRows } = await db.deleteFrom("deliveries").where("id", "in", selected).executeTakeFirst();
  return Number(numDeletedRows);
}

/** Deletes deliveries of a tenant that ended before a time, up to `limit` of them. Returns how many. */
export async function deleteOldDeliveries(
  db: Db,
  tenantId: string,
  { before, limit }: { readonly before: number; readonly limit: number },
): Promise<number> {
  const ended = deliveriesOf(db, tenantId).where(IS_ENDED_DELIVERY).where("ended_at", "<", before);
  return await deleteDeliveries(db, ended.orderBy("ended_at").limit(limit));
}

/** Deletes up to `limit` deliveries of a webhook. Returns how many. */
export async function deleteDeliveriesOf(
  db: Db,
  { tenantId, webhookId }: { readonly tenantId: string; readonly webhookId: string },
  limit: number,
): Promise<number> {
  return await deleteDeliveries(db, deliveriesOf(db, tenantId).where("webhook_id", "=", webhookId).limit(limit));
}
