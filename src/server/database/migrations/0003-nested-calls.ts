// Adds nested calls as calls of their own, and approvals of calls.
import { type Kysely, sql } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

/** Gives keys that can approve versions the scope to approve calls. Otherwise no key of an older server could, or could create a key that can. */
async function extendKeys(db: Kysely<{ api_keys: { id: string; scopes: string } }>): Promise<void> {
  const keys = await db.selectFrom("api_keys").select(["id", "scopes"]).execute();
  for (const { id, scopes } of keys) {
    const granted = JSON.parse(scopes) as readonly string[];
    if (!granted.includes("tools:approve") || granted.includes("calls:approve")) continue;
    const extended = JSON.stringify([...granted, "calls:approve"]);
    await db.updateTable("api_keys").set({ scopes: extended }).where("id", "=", id).execute();
  }
}

export async function up(db: Kysely<unknown>, { integer, tableOptions }: ColumnTypes): Promise<void> {
  for (const column of ["parent_id", "root_id", "approval_id"]) {
    await db.schema.alterTable("calls").addColumn(column, "text").execute();
  }
  // Lists show the calls of clients. Without these, a list of a tool that calls many others would read all of them.
  await db.schema
    .createIndex("calls_of_clients")
    .on("calls")
    .columns(["tenant_id", "id"])
    .where(sql.ref("parent_id"), "is", null)
    .execute();
  await db.schema
    .createIndex("calls_by_root")
    .on("calls")
    .columns(["root_id", "id"])
    .where(sql.ref("root_id"), "is not", null)
    .execute();
  await db.schema.createIndex("tool_versions_by_bundle").on("tool_versions").column("bundle_hash").execute();
  await db.schema
    .createTable("approvals")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("tenant_id", "text", (column) => column.notNull().references("tenants.id").onDelete("cascade"))
    .addColumn("call_id", "text", (column) => column.notNull().unique().references("calls.id").onDelete("cascade"))
    .addColumn("state", "text", (column) => column.notNull())
    .addColumn("because", "text", (column) => column.notNull())
    .addColumn("origin", "text", (column) => column.notNull())
    .addColumn("tool_name", "text", (column) => column.notNull())
    .addColumn("tool_version", integer, (column) => column.notNull())
    .addColumn("tool_digest", "text", (column) => column.notNull())
    .addColumn("input_sha256", "text", (column) => column.notNull())
    .addColumn("requested_by", "text", (column) => column.notNull())
    .addColumn("created_at", integer, (column) => column.notNull())
    .addColumn("expires_at", integer, (column) => column.notNull())
    .addColumn("decided_by", "text")
    .addColumn("decided_at", integer)
    .addColumn("reason", "text")
    .addColumn("delivered_at", integer)
    .modifyEnd(tableOptions)
    .execute();
  await extendKeys(db as unknown as Parameters<typeof extendKeys>[0]);
  await db.schema.createIndex("approvals_by_state").on("approvals").columns(["tenant_id", "state", "id"]).execute();
  await db.schema
    .createIndex("approvals_pending")
    .on("approvals")
    .column("expires_at")
    .where(sql.ref("state"), "=", sql`'pending'`)
    .execute();
  await db.schema
    .createIndex("approvals_by_input")
    .on("approvals")
    .columns(["tenant_id", "tool_name", "input_sha256", "id"])
    .execute();
}
