// Adds an index of deliveries that have ended, by tenant and time: the server looks for old ones once an hour.
import type { Kysely } from "kysely";
import { IS_ENDED_DELIVERY } from "../partial-indexes.ts";

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createIndex("deliveries_ended")
    .on("deliveries")
    .columns(["tenant_id", "ended_at"])
    .where(IS_ENDED_DELIVERY)
    .execute();
}
