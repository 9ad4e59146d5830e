// Adds where the other replicas reach one, so that they can pass on calls of its sessions. Null for one of an earlier release.
import type { Kysely } from "kysely";

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable("replicas").addColumn("url", "text").execute();
}
