// Adds an index of queued calls by tenant: the queue takes turns among the tenants, and each has a limit of queued calls.
import type { Kysely } from "kysely";
import { IS_QUEUED_CALL } from "../partial-indexes.ts";

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createIndex("calls_queued")
    .on("calls")
    .columns(["tenant_id", "run_at", "id"])
    .where(IS_QUEUED_CALL)
    .execute();
}
