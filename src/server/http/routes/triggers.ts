// Routes of triggers: their management, and the public URLs at which other services call tools with a signature.

import { z } from "@hono/zod-openapi";
import { ownKeyOf } from "../../calls/call-request.ts";
import { createId } from "../../ids.ts";
import { appendAudit } from "../../records/audit/audit.ts";
import {
  deleteTrigger,
  findTrigger,
  insertTrigger,
  listTriggers,
  type TriggerRecord,
  toTrigger,
  updateTrigger,
} from "../../records/events/triggers.ts";
import { AliasSchema } from "../../records/tools/releases.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import { verifyRequest } from "../../triggers/verify-request.ts";
import type { App, ServerDependencies } from "../context.ts";
import { checkIfMatch, EtagSchema, respondWithEtag, withEtag } from "../entity-tag.ts";
import { readText } from "../request-body.ts";
import { notFound, RequestError } from "../request-error.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { ErrorSchema, IdSchema, OkSchema, pageOf, TimeSchema, ToolNameParamSchema } from "../schemas/common.ts";
import { changeAudited } from "./audited-change.ts";
import { checkToolExists } from "./check-tool.ts";
import { TenantParamsSchema } from "./tenants.ts";
import { newSigningSecret } from "./webhooks.ts";

const TriggerParamsSchema = TenantParamsSchema.extend({ trigger: IdSchema });
const HookParamsSchema = z.strictObject({ trigger: IdSchema });
const MAX_TRIGGERS = 1_000;
/** Longest body of a request to a trigger. */
const MAX_HOOK_BYTES = 1024 * 1024;
/** Owner of bodies that are sent to triggers that do not exist. No tenant has this id. */
const UNKNOWN_TRIGGERS = "/hooks";

/** A request to a trigger, as its document says. The handler checks the signature of the body's bytes before it parses them. */
const HookHeadersSchema = z.object({
  "webhook-id": z
    .string()
    .optional()
    .describe(
      "Standard Webhooks: id of the message, at most 128 of A-Z a-z 0-9 . _ : -. A repeated id adds no second call",
    ),
  "webhook-timestamp": z
    .string()
    .optional()
    .describe("Standard Webhooks: when it was sent, in seconds since 1970, at most five minutes away"),
  "webhook-signature": z
    .string()
    .optional()
    .describe(
      "Standard Webhooks: `v1,` and the HMAC-SHA256 of id, time and body in base64. Several are separated by spaces",
    ),
  "x-hub-signature-256": z
    .string()
    .optional()
    .describe("GitHub, instead of the others: `sha256=` and the HMAC-SHA256 of the body in hexadecimal"),
});
const HookBodySchema = z.record(z.string(), z.unknown()).openapi("HookInput");

const VerificationSchema = z.enum(["standard_webhooks", "github"]);
const StateSchema = z.enum(["active", "paused"]);
const NewTriggerSchema = z
  .strictObject({
    name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/, { error: "Expected 1 to 128 of A-Z a-z 0-9 _ . -" }),
    tool: ToolNameParamSchema,
    alias: AliasSchema.default("live"),
    verification: VerificationSchema.default("standard_webhooks"),
    secret: z
      .string()
      .min(16)
      .max(512)
      .optional()
      .describe("The secret of a service that chooses it itself: whsec_… for Standard Webhooks. Default: a new one"),
  })
  .openapi("NewTrigger");
const fields = {
  id: z.string(),
  name: z.string(),
  tool: z.string(),
  alias: z.string(),
  verification: VerificationSchema,
  state: StateSchema,
  etag: EtagSchema,
  path: z.string().describe("Path of the URL"),
  createdBy: z.string(),
  createdAt: TimeSchema,
  updatedAt: TimeSchema,
};
export const TriggerSchema = z.strictObject(fields).openapi("Trigger");
export const CreatedTriggerSchema = z
  .strictObject({ ...fields, secret: z.string().describe("The signing secret, which is shown only now") })
  .openapi("CreatedTrigger");
const TriggerChangesSchema = z
  .strictObject({ state: StateSchema, alias: AliasSchema })
  .partial()
  .openapi("TriggerChanges");

const show = (trigger: TriggerRecord) => withEtag(trigger, ["state", "alias"]);

export function addTriggerRoutes(app: App, dependencies: ServerDependencies): void {
  const { database, masterKey, authenticator, calls } = dependencies;
  const { db } = database;

  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/triggers",
    {
      summary: "Lists the triggers of a tenant",
      params: TenantParamsSchema,
      responses: { 200: json(pageOf(TriggerSchema), "The triggers") },
    },
    async (c, _input) =>
      respondWithJson(c, { items: (await listTriggers(db, c.get("tenant").id)).map(show), next: null }),
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/triggers",
    {
      summary: "Creates a trigger: a URL at which another service calls a tool with a signature",
      params: TenantParamsSchema,
      body: NewTriggerSchema,
      responses: { 201: json(CreatedTriggerSchema, "The trigger"), 409: { description: "The name is taken" } },
    },
    async (c, { body }) => {
      const tenantId = c.get("tenant").id;
      const id = createId("trigger");
      const { secret = newSigningSecret(), ...given } = body;
      if (given.verification === "standard_webhooks" && !/^whsec_[A-Za-z0-9+/]{22,}={0,2}$/.test(secret))
        throw new RequestError("INVALID", "secret: Expected whsec_ and at least 16 bytes in base64");
      const now = dependencies.database.clock.now();
      const created = await changeExclusively(database, async (transaction) => {
        await checkToolExists(transaction, tenantId, given.tool);
        if ((await listTriggers(transaction, tenantId)).length >= MAX_TRIGGERS)
          throw new RequestError("INVALID", `A tenant can have at most ${MAX_TRIGGERS} triggers`);
        await appendAudit(transaction, {
          actor: c.get("actor"),
          tenantId,
          action: "trigger.created",
          target: id,
          details: given,
        });
        return await insertTrigger(transaction, {
          id,
          tenant_id: tenantId,
          name: given.name,
          tool_name: given.tool,
          alias: given.alias,
          state: "active",
          verification: given.verification,
          sealed_secret: masterKey.seal(secret, { table: "triggers", tenantId, name: id }),
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
    "PATCH /v1/tenants/{tenant}/triggers/{trigger}",
    {
      summary: "Pauses or resumes a trigger, or chooses another release",
      params: TriggerParamsSchema,
      body: TriggerChangesSchema,
      isConditional: true,
      responses: { 200: json(TriggerSchema, "The trigger") },
    },
    async (c, { params, body }) => {
      const key = { tenantId: c.get("tenant").id, id: params.trigger };
      const entry = { action: "trigger.changed", target: key.id, details: body };
      const changed = await changeAudited(c, dependencies, entry, async (transaction) => {
        const before = await findTrigger(transaction, key.id);
        if (before?.tenant_id === key.tenantId) checkIfMatch(c, show(toTrigger(before)).etag);
        return await updateTrigger(transaction, key, body);
      });
      if (changed === undefined) throw notFound("trigger", key.id);
      return respondWithEtag(c, show(changed));
    },
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/tenants/{tenant}/triggers/{trigger}",
    {
      summary: "Deletes a trigger",
      params: TriggerParamsSchema,
      responses: { 200: json(OkSchema, "Deleted") },
    },
    async (c, { params }) => {
      const entry = { action: "trigger.deleted", target: params.trigger, details: {} };
      const isDeleted = await changeAudited(c, dependencies, entry, (transaction) =>
        deleteTrigger(transaction, c.get("tenant").id, params.trigger),
      );
      if (!isDeleted) throw notFound("trigger", params.trigger);
      return respondWithJson(c, { ok: true });
    },
  );
  addRoute(
    app,
    dependencies,
    "POST /hooks/{trigger}",
    {
      summary: "Calls the tool of a trigger",
      description:
        "For other services, without a key: the request carries a signature in the headers of Standard Webhooks or of GitHub, as the trigger was created. The body is the tool's input, a JSON object in UTF-8, with any Content-Type. A request that is repeated with its id adds no second call.",
      params: HookParamsSchema,
      request: {
        headers: HookHeadersSchema,
        body: { schema: HookBodySchema, description: `The tool's input: at most ${MAX_HOOK_BYTES} bytes` },
        format: "signed",
      },
      responses: {
        202: json(OkSchema, "The call was queued, or an earlier request with this id has queued it"),
        400: json(ErrorSchema, "The signature is valid, but the body is not JSON"),
        401: json(ErrorSchema, "The signature is missing or not valid, or there is no such active trigger"),
        409: json(ErrorSchema, "The id was used with another body"),
        413: json(ErrorSchema, "The body is too large"),
        422: json(ErrorSchema, "The body is not an object, or the id of the trigger is malformed"),
        429: json(ErrorSchema, "A quota of the tenant is used up, such as that of stored bytes"),
      },
    },
    async (c, { params }) => {
      const row = await findTrigger(db, params.trigger);
      // The body is read before its signature is checked, so it counts for the tenant that the URL belongs to.
      using kept = dependencies.bodies.keep(row?.tenant_id ?? UNKNOWN_TRIGGERS);
      const body = await readText(c, MAX_HOOK_BYTES, kept);
      const tenant = row === undefined ? undefined : await authenticator.tenant(row.tenant_id);
      const secret =
        row && masterKey.open(row.sealed_secret, { table: "triggers", tenantId: row.tenant_id, name: row.id });
      const id =
        row === undefined || secret === undefined
          ? undefined
          : verifyRequest({ headers: c.req.raw.headers, body }, row.verification, secret);
      // A trigger that does not exist or is paused looks like a wrong signature.
      if (row === undefined || tenant === undefined || id === undefined || row.state !== "active")
        throw new RequestError("UNAUTHENTICATED", "Expected a valid signature of an active trigger");
      const call = {
        toolName: row.tool_name,
        alias: row.alias,
        input: parseInput(body),
        idempotencyKey: ownKeyOf(row.id, id),
      };
      await calls.enqueue(call, { tenant, keyId: row.id });
      return respondWithJson(c, { ok: true }, 202);
    },
  );
}

/** @throws {RequestError} MALFORMED for a body that is not a JSON object */
function parseInput(body: string): unknown {
  let input: unknown;
  try {
    input = JSON.parse(body);
  } catch {
    throw new RequestError("MALFORMED", "The body is not valid JSON");
  }
  if (typeof input === "object" && input !== null && !Array.isArray(input)) return input;
  throw new RequestError("INVALID", "Expected a JSON object as the body");
}
