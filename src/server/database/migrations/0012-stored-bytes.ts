// Adds how many bytes each tenant has stored. Triggers count them, so that the numbers are right whatever writes: also cascading deletions, and
// replicas of the release before, which do not know the table.
import { type Kysely, sql } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

/** What counts: the columns with content of tenants, by table. */
export const COUNTED_COLUMNS = {
  blobs: ["bytes"],
  tool_versions: ["definition"],
  kv_entries: ["key", "data"],
  calls: ["input", "output", "error", "logs", "calls", "timeline"],
  call_contents: ["text"],
  runs: ["input", "result"],
  run_entries: ["text"],
  schedules: ["input"],
  secrets: ["sealed"],
  deliveries: ["body"],
} as const;

const COUNTED = Object.entries(COUNTED_COLUMNS) as readonly (readonly [string, readonly string[]])[];

/** Returns the bytes of a row in SQL. @param row prefix of its columns */
const sizeOf = (columns: readonly string[], row = ""): string =>
  columns.map((column) => `coalesce(octet_length(${row}${column}), 0)`).join(" + ");

/** Returns the statement that counts everything that is stored, for an empty table of counts. */
export const COUNT_ALL: string = `insert into stored_bytes (tenant_id, part, bytes) select tenant_id, 0, sum(bytes) from (${COUNTED.map(
  ([table, columns]) => `select tenant_id, sum(${sizeOf(columns)}) as bytes from ${table} group by tenant_id`,
).join(" union all ")}) as counted group by tenant_id`;

function sqliteTriggers(table: string, columns: readonly string[]): readonly string[] {
  const add = (row: "new" | "old", bytes: string): string =>
    `insert into stored_bytes (tenant_id, part, bytes) values (${row}.tenant_id, 0, ${bytes})
      on conflict (tenant_id, part) do update set bytes = bytes + excluded.bytes;`;
  const [before, after] = [sizeOf(columns, "old."), sizeOf(columns, "new.")];
  const begin = (event: string): string => `create trigger stored_bytes_of_${table}_${event} after ${event}`;
  return [
    `${begin("insert")} on ${table} begin ${add("new", after)} end`,
    `${begin("delete")} on ${table} begin ${add("old", `-(${before})`)} end`,
    `${begin("update")} of ${columns.join(", ")} on ${table} when ${after} <> ${before}
      begin ${add("new", `${after} - (${before})`)} end`,
  ];
}

/** A count of its own for each connection, so that no transaction waits for another one's. */
const upsert = (values: string): string =>
  `insert into stored_bytes as stored (tenant_id, part, bytes) ${values}
    on conflict (tenant_id, part) do update set bytes = stored.bytes + excluded.bytes`;

function postgresTriggers(table: string, columns: readonly string[]): readonly string[] {
  const name = `stored_bytes_of_${table}`;
  const define = (event: string, values: string): string =>
    `create function ${name}_${event}() returns trigger language plpgsql as $$
      begin ${upsert(values)}; return null; end $$`;
  // Of a whole statement: one that changes many rows would update the same count for each of them.
  const sumOf = (sign: string): string =>
    `select tenant_id, pg_backend_pid(), ${sign}sum(${sizeOf(columns)}) from changed group by tenant_id`;
  const [before, after] = [sizeOf(columns, "old."), sizeOf(columns, "new.")];
  const run = (event: string): string => `execute function ${name}_${event}()`;
  return [
    define("insert", sumOf("")),
    define("delete", sumOf("-")),
    define("update", `values (new.tenant_id, pg_backend_pid(), ${after} - (${before}))`),
    `create trigger ${name}_insert after insert on ${table}
      referencing new table as changed for each statement ${run("insert")}`,
    `create trigger ${name}_delete after delete on ${table}
      referencing old table as changed for each statement ${run("delete")}`,
    `create trigger ${name}_update after update of ${columns.join(", ")} on ${table}
      for each row when (${after} <> ${before}) ${run("update")}`,
  ];
}

export async function up(db: Kysely<unknown>, { integer, tableOptions }: ColumnTypes): Promise<void> {
  // Values of tools have no reference to a tenant, so their counts have none either.
  await db.schema
    .createTable("stored_bytes")
    .addColumn("tenant_id", "text", (column) => column.notNull())
    .addColumn("part", integer, (column) => column.notNull())
    .addColumn("bytes", integer, (column) => column.notNull())
    .addPrimaryKeyConstraint("stored_bytes_key", ["tenant_id", "part"])
    .modifyEnd(tableOptions)
    .execute();
  const toTriggers = integer === "bigint" ? postgresTriggers : sqliteTriggers;
  // With Postgres, a new trigger locks its table against writes until the end of the migration, so that nothing is missed or counted twice.
  for (const [table, columns] of COUNTED) {
    for (const statement of toTriggers(table, columns)) await sql.raw(statement).execute(db);
  }
  await sql.raw(COUNT_ALL).execute(db);
}
