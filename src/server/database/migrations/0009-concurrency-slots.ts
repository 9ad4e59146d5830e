// Adds how many calls of a tenant each replica may run at the same time. SQLite has the table too, unused.
import type { Kysely } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

export async function up(db: Kysely<unknown>, { integer, tableOptions }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable("concurrency_slots")
    .addColumn("tenant_id", "text", (column) => column.notNull().references("tenants.id").onDelete("cascade"))
    .addColumn("replica_id", "text", (column) => column.notNull())
    .addColumn("held", integer, (column) => column.notNull())
    .addColumn("expires_at", integer, (column) => column.notNull())
    .addPrimaryKeyConstraint("concurrency_slots_key", ["tenant_id", "replica_id"])
    .modifyEnd(tableOptions)
    .execute();
  await db.schema.createIndex("concurrency_slots_by_replica").on("concurrency_slots").column("replica_id").execute();
}
