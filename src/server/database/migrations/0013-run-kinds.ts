// Adds the kind of a run: of a tool, or of code that a model has written.
import type { Kysely } from "kysely";

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable("runs")
    .addColumn("kind", "text", (column) => column.notNull().defaultTo("tool"))
    .execute();
}
