// Routes of webhooks: create, list, change and delete them, list their deliveries, and send one again.

import { randomBytes } from "node:crypto";
import { z } from "@hono/zod-openapi";
import type { DeliveriesTable } from "../../database/tables/event-tables.ts";
import { createId } from "../../ids.ts";
import { appendAudit } from "../../records/audit/audit.ts";
import { deleteInBatches } from "../../records/batches.ts";
import {
  deleteDeliveriesOf,
  deleteWebhook,
  EVENTS,
  findWebhook,
  insertTestDelivery,
  insertWebhook,
  listDeliveries,
  listWebhooks,
  redeliver,
  toWebhook,
  updateWebhook,
  type WebhookRecord,
} from "../../records/events/webhooks.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import { checkWebhookUrl } from "../../webhooks/check-url.ts";
import type { App, ServerDependencies } from "../context.ts";
import { checkIfMatch, EtagSchema, respondWithEtag, withEtag } from "../entity-tag.ts";
import { nextCursor, toPage } from "../pages.ts";
import { notFound, RequestError } from "../request-error.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { IdSchema, idPageQuery, OkSchema, pageOf, TimeSchema } from "../schemas/common.ts";
import { LineSchema } from "../schemas/text.ts";
import { changeAudited } from "./audited-change.ts";
import { TenantParamsSchema } from "./tenants.ts";

const WebhookParamsSchema = TenantParamsSchema.extend({ webhook: IdSchema });
const DeliveryParamsSchema = WebhookParamsSchema.extend({ delivery: IdSchema });
const MAX_WEBHOOKS = 100;
/** Bytes of a signing secret, as Standard Webhooks recommends: 24 to 64. */
const SECRET_BYTES = 32;

export const newSigningSecret = (): string => `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;

const UrlSchema = LineSchema.max(2_048)
  .refine((text) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol), {
    error: "Expected an http or https URL",
  })
  .refine((text) => !URL.canParse(text) || `${new URL(text).username}${new URL(text).password}` === "", {
    error: "Expected a URL without a user name or password",
  });
const EventsSchema = z.array(z.enum(EVENTS)).min(1).max(EVENTS.length);
const StateSchema = z.enum(["active", "disabled"]);

const NewWebhookSchema = z.strictObject({ url: UrlSchema, events: EventsSchema }).openapi("NewWebhook");
const WebhookChangesSchema = z
  .strictObject({ url: UrlSchema, events: EventsSchema, state: StateSchema })
  .partial()
  .openapi("WebhookChanges");
const fields = {
  id: z.string(),
  url: z.string(),
  events: EventsSchema,
  state: StateSchema,
  etag: EtagSchema,
  createdBy: z.string(),
  createdAt: TimeSchema,
  updatedAt: TimeSchema,
};
export const WebhookSchema = z.strictObject(fields).openapi("Webhook");
export const CreatedWebhookSchema = z
  .strictObject({ ...fields, secret: z.string().describe("The signing secret, which is shown only now") })
  .openapi("CreatedWebhook");
export const DeliverySchema = z
  .strictObject({
    id: z.string(),
    event: z.string(),
    state: z.enum(["waiting", "sending", "delivered", "failed"]),
    attempts: z.int(),
    status: z.int().nullable(),
    error: z.string().nullable(),
    nextAt: TimeSchema.nullable().describe("Time of the next attempt"),
    createdAt: TimeSchema,
    endedAt: TimeSchema.nullable(),
    body: z.any().describe("What is sent"),
  })
  .openapi("Delivery");

const show = (webhook: WebhookRecord) => withEtag(webhook, ["url", "events", "state"]);

const showDelivery = (row: DeliveriesTable): object => ({
  id: row.id,
  event: row.event,
  state: row.state,
  attempts: row.attempts,
  status: row.status,
  error: row.error,
  nextAt: row.state === "waiting" ? row.run_at : null,
  createdAt: row.created_at,
  endedAt: row.ended_at,
  body: JSON.parse(row.body),
});

export function addWebhookRoutes(app: App, dependencies: ServerDependencies): void {
  const { database, masterKey, deliveries } = dependencies;
  const { db } = database;

  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/webhooks",
    {
      summary: "Lists the webhooks of a tenant",
      params: TenantParamsSchema,
      responses: { 200: json(pageOf(WebhookSchema), "The webhooks") },
    },
    async (c, _input) =>
      respondWithJson(c, { items: (await listWebhooks(db, c.get("tenant").id)).map(show), next: null }),
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/webhooks",
    {
      summary: "Creates a webhook, which receives events of the tenant",
      description:
        "Deliveries are signed as Standard Webhooks describes, and repeated until a response has a status of 2xx. A URL with an address that is not public is rejected, unless the server's option `webhookAddresses` allows it. The addresses of names are checked for each delivery.",
      params: TenantParamsSchema,
      body: NewWebhookSchema,
      responses: { 201: json(CreatedWebhookSchema, "The webhook with its signing secret") },
    },
    async (c, { body }) => {
      const tenantId = c.get("tenant").id;
      checkWebhookUrl(body.url, dependencies.webhookAddresses);
      const id = createId("webhook");
      const secret = newSigningSecret();
      const now = dependencies.database.clock.now();
      const created = await changeExclusively(database, async (transaction) => {
        if ((await listWebhooks(transaction, tenantId)).length >= MAX_WEBHOOKS)
          throw new RequestError("INVALID", `A tenant can have at most ${MAX_WEBHOOKS} webhooks`);
        await appendAudit(transaction, {
          actor: c.get("actor"),
          tenantId,
          action: "webhook.created",
          target: id,
          details: body,
        });
        return await insertWebhook(transaction, {
          id,
          tenant_id: tenantId,
          url: body.url,
          events: JSON.stringify(body.events),
          state: "active",
          sealed_secret: masterKey.seal(secret, { table: "webhooks", tenantId, name: id }),
          created_by: c.get("principal").keyId,
          created_at: now,
          updated_at: now,
        });
      });
      return respondWithEtag(c, { ...show(created), secret }, 201);
    },
  );
  addRoute(
    app,
    dependencies,
    "PATCH /v1/tenants/{tenant}/webhooks/{webhook}",
    {
      summary: "Changes, disables or enables a webhook",
      params: WebhookParamsSchema,
      body: WebhookChangesSchema,
      isConditional: true,
      responses: { 200: json(WebhookSchema, "The webhook") },
    },
    async (c, { params, body }) => {
      const key = { tenantId: c.get("tenant").id, id: params.webhook };
      if (body.url !== undefined) checkWebhookUrl(body.url, dependencies.webhookAddresses);
      const { events, ...rest } = body;
      const changes = { ...rest, ...(events === undefined ? {} : { events: JSON.stringify(events) }) };
      const entry = { action: "webhook.changed", target: key.id, details: body };
      const changed = await changeAudited(c, dependencies, entry, async (transaction) => {
        const before = await findWebhook(transaction, key.tenantId, key.id);
        if (before !== undefined) checkIfMatch(c, show(toWebhook(before)).etag);
        return await updateWebhook(transaction, key, changes);
      });
      if (changed === undefined) throw notFound("webhook", key.id);
      return respondWithEtag(c, show(changed));
    },
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/tenants/{tenant}/webhooks/{webhook}",
    {
      summary: "Deletes a webhook with its deliveries",
      params: WebhookParamsSchema,
      responses: { 200: json(OkSchema, "Deleted") },
    },
    async (c, { params }) => {
      const entry = { action: "webhook.deleted", target: params.webhook, details: {} };
      const isDeleted = await changeAudited(c, dependencies, entry, (transaction) =>
        deleteWebhook(transaction, c.get("tenant").id, params.webhook),
      );
      // Not within the change, which others wait for. Also without the webhook: an earlier request may have failed here.
      const webhook = { tenantId: c.get("tenant").id, webhookId: params.webhook };
      await deleteInBatches((limit) => deleteDeliveriesOf(dependencies.database.db, webhook, limit));
      if (!isDeleted) throw notFound("webhook", params.webhook);
      return respondWithJson(c, { ok: true });
    },
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/webhooks/{webhook}/test",
    {
      summary: "Sends a test event to a webhook",
      params: WebhookParamsSchema,
      responses: { 202: json(DeliverySchema, "The delivery") },
    },
    async (c, { params }) => {
      const entry = { action: "webhook.tested", target: params.webhook, details: {} };
      const row = await changeAudited(c, dependencies, entry, async (transaction) => {
        const webhook = await findWebhook(transaction, c.get("tenant").id, params.webhook);
        return webhook && (await insertTestDelivery(transaction, webhook));
      });
      if (row === undefined) throw notFound("webhook", params.webhook);
      deliveries.notify();
      return respondWithJson(c, showDelivery(row), 202);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/webhooks/{webhook}/deliveries",
    {
      summary: "Lists the deliveries of a webhook, the newest first",
      params: WebhookParamsSchema,
      query: idPageQuery("delivery"),
      responses: { 200: json(pageOf(DeliverySchema), "A page of deliveries") },
    },
    async (c, { params, query }) => {
      const key = { tenantId: c.get("tenant").id, webhookId: params.webhook };
      if ((await findWebhook(db, key.tenantId, key.webhookId)) === undefined) throw notFound("webhook", key.webhookId);
      const rows = await listDeliveries(db, key, { before: query.cursor, limit: query.limit + 1 });
      const page = toPage(rows, query.limit);
      return respondWithJson(c, { items: page.rows.map(showDelivery), next: nextCursor(page, ({ id }) => id) });
    },
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/webhooks/{webhook}/deliveries/{delivery}/redeliver",
    {
      summary: "Sends a delivery that has ended again",
      params: DeliveryParamsSchema,
      responses: { 202: json(OkSchema, "It will be sent"), 409: { description: "The delivery has not ended" } },
    },
    async (c, { params }) => {
      const key = { tenantId: c.get("tenant").id, webhookId: params.webhook, id: params.delivery };
      const entry = { action: "webhook.redelivered", target: key.webhookId, details: { deliveryId: key.id } };
      if (!(await changeAudited(c, dependencies, entry, (transaction) => redeliver(transaction, key)))) {
        const rows = await listDeliveries(db, key, { limit: 1 });
        if (rows.length === 0) throw notFound("webhook", key.webhookId);
        throw new RequestError("CONFLICT", "There is no delivery of this id that has ended");
      }
      deliveries.notify();
      return respondWithJson(c, { ok: true }, 202);
    },
  );
}
