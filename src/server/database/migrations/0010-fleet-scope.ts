// Adds the scope of those who drain executors to the keys of administrators.
import type { Kysely } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

const SCOPE = "fleet:write";

interface Tables {
  readonly api_keys: { readonly id: string; readonly tenant_id: string | null; readonly scopes: string };
}

/** Lets administrators of an older server drain executors, and create keys that can. */
export async function up(db: Kysely<unknown>, _types: ColumnTypes): Promise<void> {
  const tables = db as unknown as Kysely<Tables>;
  const keys = await tables.selectFrom("api_keys").select(["id", "scopes"]).where("tenant_id", "is", null).execute();
  for (const { id, scopes } of keys) {
    const granted = JSON.parse(scopes) as readonly string[];
    const isAdmin = granted.includes("keys:write") && granted.includes("tenants:write");
    if (!isAdmin || granted.includes(SCOPE)) continue;
    const extended = JSON.stringify([...granted, SCOPE]);
    await tables.updateTable("api_keys").set({ scopes: extended }).where("id", "=", id).execute();
  }
}
