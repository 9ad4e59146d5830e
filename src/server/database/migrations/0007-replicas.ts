// Adds what server processes with one Postgres share: which of them are alive, the messages
// between them, and the log lines of calls that are watched. SQLite has these tables too, unused. Also adds which releases work with a schema.
import { type Kysely, sql } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

export async function up(db: Kysely<unknown>, { integer, serial, tableOptions }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable("replicas")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("version", "text", (column) => column.notNull())
    .addColumn("started_at", integer, (column) => column.notNull())
    .addColumn("seen_at", integer, (column) => column.notNull())
    .modifyEnd(tableOptions)
    .execute();
  await db.schema
    .createTable("replica_messages")
    .addColumn("id", sql.raw(serial), (column) => column.primaryKey())
    .addColumn("sender", "text", (column) => column.notNull())
    .addColumn("body", "text", (column) => column.notNull())
    .addColumn("created_at", integer, (column) => column.notNull())
    .modifyEnd(tableOptions)
    .execute();
  await db.schema
    .createTable("live_logs")
    .addColumn("call_id", "text", (column) => column.notNull())
    .addColumn("attempt", "text", (column) => column.notNull())
    .addColumn("position", integer, (column) => column.notNull())
    .addColumn("tenant_id", "text", (column) => column.notNull())
    .addColumn("text", "text", (column) => column.notNull())
    .addColumn("created_at", integer, (column) => column.notNull())
    .addPrimaryKeyConstraint("live_logs_key", ["call_id", "attempt", "position"])
    .modifyEnd(tableOptions)
    .execute();
  await db.schema.createIndex("live_logs_by_age").on("live_logs").column("created_at").execute();
  await db.schema
    .createTable("migration_rules")
    .addColumn("name", "text", (column) => column.primaryKey())
    .addColumn("works_with", integer, (column) => column.notNull())
    .modifyEnd(tableOptions)
    .execute();
  await db.schema.createIndex("replica_messages_by_age").on("replica_messages").column("created_at").execute();
}
