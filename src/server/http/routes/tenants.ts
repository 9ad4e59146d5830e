// Routes of tenants: create, list, change, suspend and delete.

import { z } from "@hono/zod-openapi";
import { appendAudit } from "../../records/audit/audit.ts";
import { checkPolicy } from "../../records/tenants/tenant-policy.ts";
import {
  findTenant,
  insertTenant,
  listTenants,
  TENANT_ID_PATTERN,
  type TenantRecord,
  updateTenant,
} from "../../records/tenants/tenants.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import { deleteTenant } from "../../tenants/delete-tenant.ts";
import { exportTenant } from "../../transfer/export-tenant.ts";
import type { App, ServerDependencies } from "../context.ts";
import { checkIfMatch, respondWithEtag, withEtag } from "../entity-tag.ts";
import { nextCursor } from "../pages.ts";
import { notFound } from "../request-error.ts";
import { respondWithJson, respondWithStream } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { pageOf, pageQueryOf, TenantIdParamSchema } from "../schemas/common.ts";
import { DeletedTenantSchema, NewTenantSchema, TenantChangesSchema, TenantSchema } from "../schemas/tenants.ts";

const DeletionQuerySchema = z.strictObject({
  rewrite: z.enum(["true", "false"]).optional().openapi({
    description:
      "Whether Postgres rewrites its tables, so that none of the tenant's bytes remain in their files. Each table is locked meanwhile, and calls wait. Default: the option `vacuumFull` of the server. SQLite does so always",
  }),
});

export const TenantParamsSchema = z.strictObject({ tenant: TenantIdParamSchema });

const show = ({ id, name, state, policy, createdAt, updatedAt }: TenantRecord) =>
  withEtag({ id, name, state, policy, createdAt, updatedAt }, ["name", "state", "policy"]);

export function addTenantRoutes(app: App, dependencies: ServerDependencies): void {
  const { db } = dependencies.database;

  addRoute(
    app,
    dependencies,
    "GET /v1/tenants",
    {
      summary: "Lists tenants by id",
      query: pageQueryOf(TENANT_ID_PATTERN),
      responses: { 200: json(pageOf(TenantSchema), "A page of tenants") },
    },
    async (c, input) => {
      const { limit, cursor } = input.query;
      const page = await listTenants(db, { after: cursor, limit });
      return respondWithJson(c, { items: page.rows.map(show), next: nextCursor(page, ({ id }) => id) });
    },
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants",
    {
      summary: "Creates a tenant",
      body: NewTenantSchema,
      responses: { 201: json(TenantSchema, "The tenant"), 409: { description: "The id is taken" } },
    },
    async (c, input) => {
      const { id, name = id, policy } = input.body;
      checkPolicy(policy);
      const tenant = await changeExclusively(dependencies.database, async (transaction) => {
        const created = await insertTenant(transaction, { id, name, policy });
        await dependencies.tenantChanges.announce(id, transaction);
        await appendAudit(transaction, {
          actor: c.get("actor"),
          tenantId: id,
          action: "tenant.created",
          target: id,
          details: { name, policy },
        });
        return created;
      });
      dependencies.authenticator.clear();
      return respondWithEtag(c, show(tenant), 201);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}",
    {
      summary: "Returns a tenant",
      params: TenantParamsSchema,
      responses: { 200: json(TenantSchema, "The tenant") },
    },
    (c, _input) => respondWithEtag(c, show(c.get("tenant"))),
  );
  addRoute(
    app,
    dependencies,
    "PATCH /v1/tenants/{tenant}",
    {
      summary: "Changes a tenant's name, policy or state",
      description:
        "A policy replaces the one before as a whole: send `If-Match` so as not to undo the change of another client. A suspended tenant's calls are denied, and those that run are cancelled, with its sessions; durable runs wait until the tenant is active again.",
      params: TenantParamsSchema,
      body: TenantChangesSchema,
      isConditional: true,
      responses: { 200: json(TenantSchema, "The tenant") },
    },
    async (c, input) => {
      const { id } = c.get("tenant");
      const changes = input.body;
      if (changes.policy !== undefined) checkPolicy(changes.policy);
      await changeExclusively(dependencies.database, async (transaction) => {
        const before = await findTenant(transaction, id);
        // It may be deleted since the request began.
        if (before === undefined || before.state === "deleting") throw notFound("tenant", id);
        checkIfMatch(c, show(before).etag);
        await updateTenant(transaction, id, changes);
        await dependencies.tenantChanges.announce(id, transaction);
        await appendAudit(transaction, {
          actor: c.get("actor"),
          tenantId: id,
          action: "tenant.changed",
          target: id,
          details: changes,
        });
      });
      dependencies.authenticator.clear();
      dependencies.glovebox.invalidateTenant(id);
      return respondWithEtag(c, show((await dependencies.authenticator.tenant(id)) as TenantRecord));
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/export",
    {
      summary: "Exports everything that a tenant owns as lines of JSON",
      description:
        "The last line has the type `end` and the number of rows; an export without it is incomplete. Values of secrets and hashes of keys are not part of it.",
      streams: () => true,
      params: TenantParamsSchema,
      responses: { 200: { content: { "application/x-ndjson": { schema: z.string() } }, description: "The export" } },
    },
    async (c, _input) => {
      const { id } = c.get("tenant");
      await dependencies.calls.flush();
      await changeExclusively(dependencies.database, async (transaction) => {
        const actor = c.get("actor");
        await appendAudit(transaction, { actor, tenantId: id, action: "tenant.exported", target: id, details: {} });
      });
      return respondWithStream(c, exportTenant(db, id), "application/x-ndjson");
    },
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/tenants/{tenant}",
    {
      summary: "Deletes a tenant with everything that it owns",
      description:
        "Ends its calls, and removes its keys, tools, calls and stored values, also from the file of SQLite. `areFilesRewritten` in the receipt says whether the bytes are gone from the database's files.",
      params: TenantParamsSchema,
      query: DeletionQuerySchema,
      responses: { 200: json(DeletedTenantSchema, "What was deleted") },
    },
    async (c, { query }) => {
      const vacuumFull = query.rewrite === undefined ? dependencies.vacuumFull : query.rewrite === "true";
      const receipt = await deleteTenant({ ...dependencies, vacuumFull }, c.get("tenant"), c.get("actor"));
      return respondWithJson(c, { receipt });
    },
  );
}
