// Exports everything that a tenant owns as lines of JSON: its settings, keys (without their hashes), tools with their sources, calls, usage,
// audit entries, schedules, webhooks, triggers, names of secrets, and the values of its tools.
import type { Db } from "../database/open-database.ts";
import { lastOfFormerTenant } from "../records/audit.ts";
import { type Row, readRows, type TableName } from "./table-rows.ts";

/** The tables of an export, with the columns that it leaves out. */
const EXPORTED: readonly (readonly [table: TableName, omitted: readonly string[]])[] = [
  ["tenants", ["revision"]],
  ["api_keys", ["hash"]],
  ["console_sessions", ["hash"]],
  ["tool_versions", []],
  ["version_files", []],
  ["blobs", []],
  ["releases", []],
  ["release_history", []],
  ["schedules", []],
  ["webhooks", ["sealed_secret"]],
  ["deliveries", []],
  ["triggers", ["sealed_secret"]],
  ["secrets", ["sealed"]],
  ["usage", []],
  ["calls", ["request_hash", "lease_owner", "lease_until", "fence"]],
  ["call_contents", []],
  ["approvals", []],
  ["runs", ["fence", "lease_until"]],
  ["run_entries", []],
  ["run_requests", ["request_hash"]],
  ["audit", ["hash_version", "salt", "content_hash", "erased_by"]],
  ["kv_entries", []],
];
/** Columns that hold JSON, which an export shows as such. */
const JSON_COLUMNS: ReadonlySet<string> = new Set([
  ...["policy", "scopes", "rate_limit", "definition", "settings", "versions", "rollback", "input", "output", "error"],
  ...["logs", "usage", "calls", "details", "hosts", "events", "body", "text", "waits", "result"],
]);

function show(row: Row, omitted: readonly string[]): object {
  const shown = Object.entries(row)
    .filter(([name]) => !omitted.includes(name))
    .map(([name, value]): [string, unknown] => {
      if (value instanceof Uint8Array) return [name, { base64: Buffer.from(value).toString("base64") }];
      if (typeof value === "string" && JSON_COLUMNS.has(name)) return [name, JSON.parse(value)];
      return [name, value];
    });
  return Object.fromEntries(shown);
}

/**
 * Yields one line for each row, each `{ type, … }`, and at last `{ type: "end", counts }`. An export without it is incomplete. Rows that are
 * written during the export may be missing.
 */
export async function* exportTenant(db: Db, tenantId: string): AsyncGenerator<string, void> {
  const counts: Record<string, number> = {};
  const former = await lastOfFormerTenant(db, tenantId);
  for (const [table, omitted] of EXPORTED) {
    counts[table] = 0;
    for await (const row of readRows(db, table, tenantId)) {
      // Entries of an earlier tenant with the same id belong to no tenant.
      if (table === "audit" && Number(row.sequence) <= former) continue;
      counts[table] += 1;
      yield `${JSON.stringify({ type: table, ...show(row, omitted) })}\n`;
    }
  }
  yield `${JSON.stringify({ type: "end", counts })}\n`;
}
