// Reads the rows of a table in pages, by its primary key, for backups and exports.
import { type RawBuilder, sql } from "kysely";
import type { Db } from "../database/open-database.ts";
import type { DatabaseSchema } from "../database/schema.ts";

/** Tables that no backup has: the state of running processes, what they count, and what migrations and triggers write. */
type OmittedTable =
  | "migration_rules"
  | "stored_bytes"
  | "release_counts"
  | "used_sign_ins"
  | "session_homes"
  | "concurrency_slots"
  | "key_slots"
  | "replicas"
  | "replica_messages"
  | "live_logs";

export type TableName = Exclude<keyof DatabaseSchema, OmittedTable>;

/** All tables with their primary keys, in an order in which rows can be inserted. */
export const TABLE_KEYS: { readonly [Name in TableName]: readonly (keyof DatabaseSchema[Name] & string)[] } = {
  settings: ["name"],
  tenants: ["id"],
  api_keys: ["id"],
  console_sessions: ["id"],
  blobs: ["tenant_id", "hash"],
  tool_versions: ["tenant_id", "tool_name", "version"],
  version_files: ["tenant_id", "tool_name", "version", "kind"],
  releases: ["tenant_id", "tool_name", "alias"],
  release_history: ["tenant_id", "tool_name", "alias", "revision"],
  calls: ["id"],
  approvals: ["id"],
  call_contents: ["call_id", "kind"],
  run_requests: ["tenant_id", "run_id"],
  runs: ["tenant_id", "id"],
  run_entries: ["tenant_id", "run_id", "position"],
  audit: ["sequence"],
  secrets: ["tenant_id", "name"],
  usage: ["tenant_id", "hour", "tool_name", "outcome"],
  quota_counters: ["tenant_id", "name"],
  schedules: ["id"],
  webhooks: ["id"],
  deliveries: ["id"],
  triggers: ["id"],
  kv_spaces: ["tenant_id", "tool"],
  kv_entries: ["tenant_id", "tool", "key"],
};
export const TABLES = Object.keys(TABLE_KEYS) as readonly TableName[];

export type TableRow = { readonly [column: string]: string | number | null | Uint8Array };

const PAGE = 500;
/** Rows with large values are read in smaller pages. */
const PAGES: { readonly [Name in TableName]?: number } = {
  blobs: 8,
  call_contents: 8,
  schedules: 8,
  runs: 8,
  kv_entries: 32,
  run_entries: 32,
  tool_versions: 100,
  calls: 100,
};

/** Yields all rows of a table in the order of its primary key; with a tenant, only its rows. */
export async function* readRows(db: Db, table: TableName, tenantId?: string): AsyncGenerator<TableRow, void> {
  const keys = TABLE_KEYS[table] as readonly string[];
  const limit = PAGES[table] ?? PAGE;
  const columns = sql.join(keys.map((key) => sql.ref(key)));
  let last: TableRow | undefined;
  for (;;) {
    const conditions: RawBuilder<unknown>[] = [];
    if (tenantId !== undefined)
      conditions.push(sql`${sql.ref(table === "tenants" ? "id" : "tenant_id")} = ${tenantId}`);
    if (last !== undefined) {
      const values = sql.join(keys.map((key) => sql`${(last as TableRow)[key]}`));
      conditions.push(sql`(${columns}) > (${values})`);
    }
    const where = conditions.length === 0 ? sql`` : sql`where ${sql.join(conditions, sql` and `)}`;
    const { rows } =
      await sql<TableRow>`select * from ${sql.table(table)} ${where} order by ${columns} limit ${limit}`.execute(db);
    yield* rows;
    last = rows.at(-1);
    if (rows.length < limit) return;
  }
}
