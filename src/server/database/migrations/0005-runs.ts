// Adds durable runs: one row for each, and the entries of its journal.
import { type Kysely, sql } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

export async function up(db: Kysely<unknown>, { integer, tableOptions }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable("runs")
    .addColumn("tenant_id", "text", (column) => column.notNull().references("tenants.id").onDelete("cascade"))
    .addColumn("id", "text", (column) => column.notNull())
    .addColumn("tool_name", "text", (column) => column.notNull())
    .addColumn("tool_version", "text")
    .addColumn("input", "text", (column) => column.notNull())
    .addColumn("state", "text", (column) => column.notNull())
    .addColumn("fence", integer, (column) => column.notNull())
    .addColumn("lease_until", integer, (column) => column.notNull())
    .addColumn("wake_at", integer)
    .addColumn("waits", "text", (column) => column.notNull())
    .addColumn("result", "text")
    .addColumn("created_at", integer, (column) => column.notNull())
    .addColumn("expires_at", integer, (column) => column.notNull())
    .addColumn("journal_length", integer, (column) => column.notNull())
    .addColumn("entries", integer, (column) => column.notNull())
    .addPrimaryKeyConstraint("runs_key", ["tenant_id", "id"])
    .modifyEnd(tableOptions)
    .execute();
  await db.schema
    .createTable("run_entries")
    .addColumn("tenant_id", "text", (column) => column.notNull())
    .addColumn("run_id", "text", (column) => column.notNull())
    .addColumn("position", integer, (column) => column.notNull())
    .addColumn("text", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("run_entries_key", ["tenant_id", "run_id", "position"])
    .addForeignKeyConstraint("run_entries_run", ["tenant_id", "run_id"], "runs", ["tenant_id", "id"], (constraint) =>
      constraint.onDelete("cascade"),
    )
    .modifyEnd(tableOptions)
    .execute();
  await db.schema
    .createIndex("runs_open")
    .on("runs")
    .columns(["state", "wake_at", "expires_at", "lease_until"])
    .where(sql.ref("state"), "in", sql`('running', 'suspended')`)
    .execute();
}
