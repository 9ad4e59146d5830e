// Deletes a tenant: ends what runs, removes its rows and its values, and rewrites the SQLite file so that none of its bytes remain in it.
import { sql } from "kysely";
import type { Glovebox } from "../../host/index.ts";
import type { Authenticator } from "../auth/authentication.ts";
import type { CallService } from "../calls/call-service.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import { type Actor, appendAudit } from "../records/audit.ts";
import { updateTenant } from "../records/tenants.ts";
import { changeExclusively } from "../records/write-lock.ts";
import type { TenantTools } from "../tools/tenant-tools.ts";

export interface DeletionParts {
  readonly database: OpenDatabase;
  readonly box: Glovebox;
  readonly authenticator: Authenticator;
  readonly tools: TenantTools;
  readonly calls: CallService;
}

/** Tables with rows of tenants, in an order that no foreign key forbids. */
const TENANT_TABLES = [
  "call_contents",
  "calls",
  "usage",
  "deliveries",
  "webhooks",
  "triggers",
  "schedules",
  "secrets",
  "kv_entries",
  "kv_spaces",
  "quota_counters",
  "releases",
  "release_history",
  "version_files",
  "tool_versions",
  "blobs",
  "console_sessions",
  "api_keys",
] as const;

/**
 * Deletes a tenant and returns how many rows of each table were removed. The audit log keeps the tenant's id, and nothing else of it.
 * @throws what the database or the Glovebox throws. The tenant's calls stay denied then, and it can be deleted again
 */
export async function deleteTenant(
  { database, box, authenticator, tools, calls }: DeletionParts,
  tenantId: string,
  actor: Actor,
): Promise<{ readonly [name: string]: unknown }> {
  const { db, kind } = database;
  // Denies new calls in every process before anything is removed.
  await changeExclusively(database, (transaction) => updateTenant(transaction, tenantId, { state: "deleting" }));
  authenticator.clear();
  const { values, artifacts } = await box.deleteTenant(tenantId);
  tools.forget(tenantId);
  await calls.flush();
  const rows: Record<string, number> = {};
  await changeExclusively(database, async (transaction) => {
    for (const table of TENANT_TABLES) {
      const { numDeletedRows } = await transaction
        .deleteFrom(table)
        .where("tenant_id", "=", tenantId)
        .executeTakeFirst();
      rows[table] = Number(numDeletedRows);
    }
    await transaction.deleteFrom("tenants").where("id", "=", tenantId).execute();
    await appendAudit(transaction, { actor, tenantId, action: "tenant.deleted", target: tenantId, details: { rows } });
  });
  authenticator.clear();
  // Deleted rows remain in free pages and in the write-ahead log until the file is rewritten.
  if (kind === "sqlite") {
    await sql`vacuum`.execute(db);
    await sql`pragma wal_checkpoint(truncate)`.execute(db);
  }
  return { tenantId, rows, values, artifacts };
}
