// Routes of the audit log.
import { type AuditPage, listAudit } from "../../records/audit/audit.ts";
import type { App, ServerDependencies } from "../context.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { numberPageQuery, pageOf } from "../schemas/common.ts";
import { AuditEntrySchema } from "../schemas/operation.ts";
import { TenantParamsSchema } from "./tenants.ts";

const AuditQuerySchema = numberPageQuery();

const show = ({ entries, next }: AuditPage): object => ({
  items: entries.map((row) => ({
    sequence: row.sequence,
    at: row.at,
    actor: row.actor,
    tenantId: row.tenant_id,
    action: row.action,
    target: row.target,
    ip: row.ip,
    requestId: row.request_id,
    details: JSON.parse(row.details),
    hash: row.hash,
    isErased: row.erased_by !== null,
  })),
  next: next === undefined ? null : String(next),
});

export function addAuditRoutes(app: App, dependencies: ServerDependencies): void {
  const responses = { 200: json(pageOf(AuditEntrySchema), "A page of entries, the newest first") };
  addRoute(
    app,
    dependencies,
    "GET /v1/audit",
    {
      summary: "Lists the changes of all tenants",
      query: AuditQuerySchema,
      responses,
    },
    async (c, input) => {
      const { limit, cursor } = input.query;
      return respondWithJson(c, show(await listAudit(dependencies.database.db, { limit, before: cursor })));
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/audit",
    {
      summary: "Lists the changes of a tenant",
      params: TenantParamsSchema,
      query: AuditQuerySchema,
      responses,
    },
    async (c, input) => {
      const { limit, cursor } = input.query;
      const tenantId = c.get("tenant").id;
      return respondWithJson(c, show(await listAudit(dependencies.database.db, { tenantId, limit, before: cursor })));
    },
  );
}
