// Adds recordings of calls: an index that finds them, and their scope.
import { type Kysely, sql } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

/** Lets administrators of an older server replay calls, and create keys that can. */
async function extendKeys(
  db: Kysely<{ api_keys: { id: string; tenant_id: string | null; scopes: string } }>,
): Promise<void> {
  const keys = await db.selectFrom("api_keys").select(["id", "scopes"]).where("tenant_id", "is", null).execute();
  for (const { id, scopes } of keys) {
    const granted = JSON.parse(scopes) as readonly string[];
    const isAdmin = granted.includes("keys:write") && granted.includes("calls:read");
    if (!isAdmin || granted.includes("calls:replay")) continue;
    const extended = JSON.stringify([...granted, "calls:replay"]);
    await db.updateTable("api_keys").set({ scopes: extended }).where("id", "=", id).execute();
  }
}

export async function up(db: Kysely<unknown>, _types: ColumnTypes): Promise<void> {
  await db.schema
    .createIndex("calls_recorded")
    .on("calls")
    .columns(["tenant_id", "tool_name", "id"])
    .where(sql.ref("content"), ">=", sql`8`)
    .execute();
  await extendKeys(db as unknown as Parameters<typeof extendKeys>[0]);
}
