// Lets the texts of a deleted tenant be erased from the audit log. Entries of earlier releases keep version 1 of the hash.
import { type Kysely, sql } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

export async function up(db: Kysely<unknown>, { integer }: ColumnTypes): Promise<void> {
  await db.schema
    .alterTable("audit")
    .addColumn("hash_version", integer, (column) => column.notNull().defaultTo(1))
    .execute();
  await db.schema.alterTable("audit").addColumn("salt", "text").execute();
  await db.schema.alterTable("audit").addColumn("content_hash", "text").execute();
  await db.schema.alterTable("audit").addColumn("erased_by", integer).execute();
  await db.schema
    .createIndex("audit_of_deletions")
    .on("audit")
    .columns(["tenant_id", "sequence"])
    .where(sql.ref("action"), "=", sql.lit("tenant.deleted"))
    .execute();
}
