// Adds how many calls of a version have ended and failed under a release that can be rolled back automatically, over all replicas.
import type { Kysely } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

export async function up(db: Kysely<unknown>, { integer, tableOptions }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable("release_counts")
    .addColumn("tenant_id", "text", (column) => column.notNull().references("tenants.id").onDelete("cascade"))
    .addColumn("tool_name", "text", (column) => column.notNull())
    .addColumn("alias", "text", (column) => column.notNull())
    .addColumn("revision", integer, (column) => column.notNull())
    .addColumn("version", integer, (column) => column.notNull())
    .addColumn("calls", integer, (column) => column.notNull())
    .addColumn("faults", integer, (column) => column.notNull())
    .addPrimaryKeyConstraint("release_counts_key", ["tenant_id", "tool_name", "alias", "revision", "version"])
    .modifyEnd(tableOptions)
    .execute();
}
