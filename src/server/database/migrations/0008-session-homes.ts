// Adds which replica has the isolate of a session. SQLite has the table too, unused.
import type { Kysely } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

export async function up(db: Kysely<unknown>, { integer, tableOptions }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable("session_homes")
    .addColumn("tenant_id", "text", (column) => column.notNull().references("tenants.id").onDelete("cascade"))
    .addColumn("tool_name", "text", (column) => column.notNull())
    .addColumn("session_id", "text", (column) => column.notNull())
    .addColumn("replica_id", "text", (column) => column.notNull())
    .addColumn("expires_at", integer, (column) => column.notNull())
    .addPrimaryKeyConstraint("session_homes_key", ["tenant_id", "tool_name", "session_id"])
    .modifyEnd(tableOptions)
    .execute();
  await db.schema.createIndex("session_homes_by_expiry").on("session_homes").column("expires_at").execute();
}
