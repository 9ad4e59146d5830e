// Adds the sign-ins at the identity provider that have opened a session of the console, so that a replayed one opens no other.
import type { Kysely } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

export async function up(db: Kysely<unknown>, { integer, tableOptions }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable("used_sign_ins")
    .addColumn("hash", "text", (column) => column.notNull())
    .addColumn("expires_at", integer, (column) => column.notNull())
    .addPrimaryKeyConstraint("used_sign_ins_key", ["hash"])
    .modifyEnd(tableOptions)
    .execute();
}
