// Deletes a tenant: ends what runs, removes its rows and its values, and rewrites the SQLite file so that none of its bytes remain in it.
import type { Glovebox } from "../../host/index.ts";
import type { RequestAuthenticator } from "../auth/authentication.ts";
import type { CallService } from "../calls/call-service.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import { eraseDeleted } from "../database/vacuum.ts";
import { type Actor, appendAudit } from "../records/audit.ts";
import { eraseAuditTexts, TENANT_DELETED } from "../records/audit-chain.ts";
import { updateTenant } from "../records/tenants.ts";
import { changeExclusively } from "../records/write-lock.ts";
import type { TenantTools } from "../tools/tenant-tools.ts";
import type { TenantChanges } from "./tenant-changes.ts";

export interface DeletionDependencies {
  readonly database: OpenDatabase;
  readonly glovebox: Glovebox;
  readonly authenticator: RequestAuthenticator;
  readonly tools: TenantTools;
  readonly calls: CallService;
  readonly tenantChanges: TenantChanges;
  /** Whether the tables of Postgres are rewritten. */
  readonly vacuumFull: boolean;
}

/** Tables with rows of tenants, in an order that no foreign key forbids. */
const TENANT_TABLES = [
  "run_entries",
  "runs",
  "run_requests",
  "approvals",
  "live_logs",
  "session_homes",
  "concurrency_slots",
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
  "release_counts",
  "releases",
  "release_history",
  "version_files",
  "tool_versions",
  "blobs",
  "console_sessions",
  "api_keys",
  // Last, because the triggers of the others write it.
  "stored_bytes",
] as const;

/**
 * Deletes a tenant and returns how many rows of each table were removed. The audit log keeps the tenant's id,
 * and when there was which action.
 * @throws what the database or the Glovebox throws. The tenant's calls stay denied then, and it can be deleted again
 */
export async function deleteTenant(
  { database, glovebox, authenticator, tools, calls, tenantChanges, vacuumFull }: DeletionDependencies,
  tenantId: string,
  actor: Actor,
): Promise<{ readonly [name: string]: unknown }> {
  // Denies new calls in every process before anything is removed.
  await changeExclusively(database, async (transaction) => {
    await updateTenant(transaction, tenantId, { state: "deleting" });
    await tenantChanges.announce(tenantId, transaction);
  });
  authenticator.clear();
  const { values, artifacts } = await glovebox.deleteTenant(tenantId);
  tools.forget(tenantId);
  await tenantChanges.eraseElsewhere(tenantId);
  await calls.flush();
  const rows: Record<string, number> = {};
  await changeExclusively(database, async (transaction) => {
    // Locks its row first, as everything does that concerns a tenant and its rows.
    await updateTenant(transaction, tenantId, { state: "deleting" });
    // A key has its counters under its own id, and its slots go with its row.
    const keys = transaction.selectFrom("api_keys").select("id").where("tenant_id", "=", tenantId);
    await transaction.deleteFrom("quota_counters").where("tenant_id", "in", keys).execute();
    for (const table of TENANT_TABLES) {
      const { numDeletedRows } = await transaction
        .deleteFrom(table)
        .where("tenant_id", "=", tenantId)
        .executeTakeFirst();
      rows[table] = Number(numDeletedRows);
    }
    await transaction.deleteFrom("tenants").where("id", "=", tenantId).execute();
    const erased = await eraseAuditTexts(transaction, tenantId);
    const event = { actor, tenantId, action: TENANT_DELETED, target: tenantId };
    await appendAudit(transaction, { ...event, details: { rows, erased } });
  });
  authenticator.clear();
  await eraseDeleted(database, [...TENANT_TABLES, "key_slots", "tenants", "audit"], { vacuumFull });
  return { tenantId, rows, values, artifacts, areFilesRewritten: database.kind === "sqlite" || vacuumFull };
}
