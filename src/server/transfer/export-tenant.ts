// Exports everything that a tenant owns as lines of JSON: its settings, keys (without their hashes), tools with their sources, calls, usage,
// audit entries, schedules, webhooks, triggers, names of secrets, and the values of its tools.
import type { Db } from "../database/open-database.ts";
import type { DatabaseSchema } from "../database/schema.ts";
import { lastOfFormerTenant } from "../records/audit/audit.ts";
import { readRows, type TableName, type TableRow } from "./table-rows.ts";

interface ExportedTable<Name extends TableName> {
  /** Columns that an export leaves out. */
  readonly omitted?: readonly (keyof DatabaseSchema[Name] & string)[];
  /** Columns that hold JSON text, or null. An export has the values. */
  readonly json?: readonly (keyof DatabaseSchema[Name] & string)[];
}

/** The tables of an export. */
const EXPORTED: { readonly [Name in TableName]?: ExportedTable<Name> } = {
  tenants: { omitted: ["revision"], json: ["policy"] },
  api_keys: { omitted: ["hash"], json: ["scopes", "rate_limit"] },
  console_sessions: { omitted: ["hash"], json: ["scopes"] },
  tool_versions: { json: ["definition", "settings"] },
  version_files: {},
  blobs: {},
  releases: { json: ["versions", "rollback"] },
  release_history: { json: ["versions"] },
  schedules: { json: ["input"] },
  webhooks: { omitted: ["sealed_secret"], json: ["events"] },
  deliveries: { json: ["body"] },
  triggers: { omitted: ["sealed_secret"] },
  secrets: { omitted: ["sealed"], json: ["hosts"] },
  usage: {},
  calls: {
    omitted: ["request_hash", "lease_owner", "lease_until", "fence"],
    json: ["input", "output", "timeline", "error", "logs", "usage", "calls"],
  },
  call_contents: { json: ["text"] },
  approvals: {},
  runs: { omitted: ["fence", "lease_until"], json: ["input", "waits", "result"] },
  run_entries: { json: ["text"] },
  run_requests: { omitted: ["request_hash"] },
  audit: { omitted: ["hash_version", "salt", "content_hash", "erased_by"], json: ["details"] },
  kv_entries: {},
};

function show(
  row: TableRow,
  { omitted = [], json = [] }: { readonly omitted?: readonly string[]; readonly json?: readonly string[] },
): object {
  const shown = Object.entries(row)
    .filter(([name]) => !omitted.includes(name))
    .map(([name, value]): [string, unknown] => {
      if (value instanceof Uint8Array) return [name, { base64: Buffer.from(value).toString("base64") }];
      return [name, typeof value === "string" && json.includes(name) ? JSON.parse(value) : value];
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
  for (const [table, columns] of Object.entries(EXPORTED) as [TableName, ExportedTable<TableName>][]) {
    counts[table] = 0;
    for await (const row of readRows(db, table, tenantId)) {
      // Entries of an earlier tenant with the same id belong to no tenant.
      if (table === "audit" && Number(row.sequence) <= former) continue;
      counts[table] += 1;
      yield `${JSON.stringify({ type: table, ...show(row, columns) })}\n`;
    }
  }
  yield `${JSON.stringify({ type: "end", counts })}\n`;
}
