// Adds who has started a run and with which idempotency key, when a run has ended, and the times of its journal's entries.
import { type Kysely, sql } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

export async function up(db: Kysely<unknown>, { integer, tableOptions }: ColumnTypes): Promise<void> {
  // A request is stored before its run, so that its key is reserved.
  await db.schema
    .createTable("run_requests")
    .addColumn("tenant_id", "text", (column) => column.notNull().references("tenants.id").onDelete("cascade"))
    .addColumn("run_id", "text", (column) => column.notNull())
    .addColumn("key_id", "text", (column) => column.notNull())
    .addColumn("idempotency_key", "text")
    .addColumn("request_hash", "text", (column) => column.notNull())
    .addColumn("cancel_requested", integer, (column) => column.notNull())
    .addColumn("created_at", integer, (column) => column.notNull())
    .addPrimaryKeyConstraint("run_requests_key", ["tenant_id", "run_id"])
    .addUniqueConstraint("run_requests_idempotency", ["tenant_id", "idempotency_key"])
    .modifyEnd(tableOptions)
    .execute();
  await db.schema
    .createIndex("run_requests_cancelled")
    .on("run_requests")
    .columns(["cancel_requested"])
    .where(sql.ref("cancel_requested"), "=", sql`1`)
    .execute();
  await db.schema.alterTable("runs").addColumn("ended_at", integer).execute();
  await db.schema.alterTable("run_entries").addColumn("created_at", integer).execute();
  await db.schema.createIndex("runs_tool").on("runs").columns(["tenant_id", "tool_name", "id"]).execute();
}
