// Adds limits of the calls of an API key, and how many of them each replica may run at the same time. SQLite has the table too, unused.
import type { Kysely } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

export async function up(db: Kysely<unknown>, { integer, tableOptions }: ColumnTypes): Promise<void> {
  await db.schema.alterTable("api_keys").addColumn("limits", "text").execute();
  await db.schema
    .createTable("key_slots")
    .addColumn("key_id", "text", (column) => column.notNull().references("api_keys.id").onDelete("cascade"))
    .addColumn("replica_id", "text", (column) => column.notNull())
    .addColumn("held", integer, (column) => column.notNull())
    .addColumn("expires_at", integer, (column) => column.notNull())
    .addPrimaryKeyConstraint("key_slots_key", ["key_id", "replica_id"])
    .modifyEnd(tableOptions)
    .execute();
  await db.schema.createIndex("key_slots_by_replica").on("key_slots").column("replica_id").execute();
}
