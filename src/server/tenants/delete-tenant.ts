// Deletes a tenant: ends what runs, removes its rows and its values, and rewrites the SQLite file so that none of its bytes remain in it.
import { sql } from "kysely";
import type { Glovebox } from "../../host/index.ts";
import type { RequestAuthenticator } from "../auth/authentication.ts";
import { tenantDeletedError } from "../calls/call-results.ts";
import type { CallService } from "../calls/call-service.ts";
import type { Db, OpenDatabase } from "../database/open-database.ts";
import { eraseDeleted } from "../database/vacuum.ts";
import { type Actor, appendAudit } from "../records/audit/audit.ts";
import { eraseAuditTexts, TENANT_DELETED } from "../records/audit/audit-chain.ts";
import { deleteInBatches, someRows } from "../records/batches.ts";
import { markDeleting, type TenantRecord } from "../records/tenants/tenants.ts";
import { changeExclusively } from "../records/write-lock.ts";
import type { TenantTools } from "../tools/tenant-tools.ts";
import type { TenantChanges } from "./tenant-changes.ts";

export interface DeletionDependencies {
  readonly database: OpenDatabase;
  readonly glovebox: Pick<Glovebox, "deleteTenant">;
  readonly authenticator: Pick<RequestAuthenticator, "clear">;
  readonly tools: Pick<TenantTools, "forget">;
  readonly calls: Pick<CallService, "flush">;
  readonly tenantChanges: Pick<TenantChanges, "announce" | "eraseElsewhere">;
  /** Whether the tables of Postgres are rewritten. */
  readonly vacuumFull: boolean;
}

/** Tables with rows of tenants, in an order that no foreign key forbids. The contents of calls go with them. */
const TENANT_TABLES = [
  "run_entries",
  "runs",
  "run_requests",
  "approvals",
  "live_logs",
  "session_homes",
  "concurrency_slots",
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

/** Tables with few rows, or with rows that are needed until the end. */
const LAST_TABLES: ReadonlySet<string> = new Set(["quota_counters", "console_sessions", "api_keys", "stored_bytes"]);

type Rows = Record<string, number>;

/** Deletes calls with their contents, which have no index by tenant. */
async function deleteCalls(
  db: Db,
  ids: readonly string[],
): Promise<{ readonly calls: number; readonly contents: number }> {
  if (ids.length === 0) return { calls: 0, contents: 0 };
  const { contents } = await db
    .selectFrom("call_contents")
    .select(({ fn }) => fn.countAll<number | string>().as("contents"))
    .where("call_id", "in", ids)
    .executeTakeFirstOrThrow();
  const { numDeletedRows } = await db.deleteFrom("calls").where("id", "in", ids).executeTakeFirst();
  return { calls: Number(numDeletedRows), contents: Number(contents) };
}

/** Deletes up to `limit` rows of a table, and adds to the counts. Returns how many there were. */
async function deleteRows(
  { db, kind }: Pick<OpenDatabase, "db" | "kind">,
  {
    table,
    tenantId,
    rows,
  }: { readonly table: (typeof TENANT_TABLES)[number]; readonly tenantId: string; readonly rows: Rows },
  limit: number,
): Promise<number> {
  const add = (name: string, count: number): void => {
    rows[name] = (rows[name] ?? 0) + count;
  };
  if (table === "calls") {
    const found = await db.selectFrom("calls").select("id").where("tenant_id", "=", tenantId).limit(limit).execute();
    const { calls, contents } = await deleteCalls(
      db,
      found.map(({ id }) => id),
    );
    add("calls", calls);
    add("call_contents", contents);
    return calls;
  }
  const { numDeletedRows } = await db
    .deleteFrom(table)
    .where(someRows(kind, table, sql`tenant_id = ${tenantId}`, limit))
    .executeTakeFirst();
  add(table, Number(numDeletedRows));
  return Number(numDeletedRows);
}

/**
 * Deletes a tenant and returns how many rows of each table were removed. The audit log keeps the tenant's id,
 * and when there was which action. Most rows are removed in batches, before the tenant itself: if an attempt fails, the next one goes on, and
 * counts what remains.
 * @throws {ToolError} TOOL_UNAVAILABLE (`details.reason: "tenant_deleted"`) if another request has deleted it
 * @throws what the database or the Glovebox throws. The tenant's calls stay denied then, and it can be deleted again
 */
export async function deleteTenant(
  { database, glovebox, authenticator, tools, calls, tenantChanges, vacuumFull }: DeletionDependencies,
  tenant: Pick<TenantRecord, "id" | "createdAt">,
  actor: Actor,
): Promise<{ readonly [name: string]: unknown }> {
  const { id: tenantId } = tenant;
  // The first statement of each transaction, as of all that concern a tenant and its rows.
  const lock = async (transaction: Db): Promise<void> => {
    if (!(await markDeleting(transaction, tenant))) throw tenantDeletedError();
  };
  // Denies new calls in every process before anything is removed.
  await changeExclusively(database, async (transaction) => {
    await lock(transaction);
    await tenantChanges.announce(tenantId, transaction);
  });
  authenticator.clear();
  const { values, artifacts } = await glovebox.deleteTenant(tenantId);
  tools.forget(tenantId);
  await tenantChanges.eraseElsewhere(tenantId);
  await calls.flush();
  const rows: Rows = {};
  for (const table of TENANT_TABLES) {
    if (LAST_TABLES.has(table)) continue;
    await deleteInBatches((limit) =>
      database.db.transaction().execute(async (db) => {
        await lock(db);
        return await deleteRows({ db, kind: database.kind }, { table, tenantId, rows }, limit);
      }),
    );
  }
  await changeExclusively(database, async (transaction) => {
    await lock(transaction);
    // A key has its counters under its own id, and its slots go with its row.
    const keys = transaction.selectFrom("api_keys").select("id").where("tenant_id", "=", tenantId);
    await transaction.deleteFrom("quota_counters").where("tenant_id", "in", keys).execute();
    for (const table of TENANT_TABLES) {
      // What was written meanwhile, and the tables that have few rows.
      const remaining = { db: transaction, kind: database.kind };
      await deleteInBatches((limit) => deleteRows(remaining, { table, tenantId, rows }, limit));
    }
    await transaction.deleteFrom("tenants").where("id", "=", tenantId).execute();
    const erased = await eraseAuditTexts(transaction, tenantId);
    const event = { actor, tenantId, action: TENANT_DELETED, target: tenantId };
    await appendAudit(transaction, { ...event, details: { rows, erased } });
  });
  authenticator.clear();
  const changed = [...TENANT_TABLES, "call_contents", "key_slots", "tenants", "audit"];
  const areFilesRewritten = await eraseDeleted(database, changed, { vacuumFull });
  return { tenantId, rows, values, artifacts, areFilesRewritten };
}
