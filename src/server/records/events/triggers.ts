// Stores triggers: URLs at which another service calls a tool, with a signature instead of an API key.
import { ToolError } from "../../../host/index.ts";
import type { Db } from "../../database/open-database.ts";
import type { Changes } from "../../database/schema.ts";
import type { TriggersTable } from "../../database/tables/event-tables.ts";

export interface TriggerRecord {
  readonly id: string;
  readonly name: string;
  readonly tool: string;
  readonly alias: string;
  readonly verification: TriggersTable["verification"];
  readonly state: TriggersTable["state"];
  /** Path of the URL. */
  readonly path: string;
  readonly createdBy: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

export const toTrigger = (row: TriggersTable): TriggerRecord => ({
  id: row.id,
  name: row.name,
  tool: row.tool_name,
  alias: row.alias,
  verification: row.verification,
  state: row.state,
  path: `/hooks/${row.id}`,
  createdBy: row.created_by,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
});

/** @throws {ToolError} NAME_TAKEN */
export async function insertTrigger(db: Db, row: TriggersTable): Promise<TriggerRecord> {
  const known = await db
    .selectFrom("triggers")
    .select("id")
    .where("tenant_id", "=", row.tenant_id)
    .where("name", "=", row.name)
    .executeTakeFirst();
  if (known !== undefined)
    throw new ToolError("NAME_TAKEN", `The tenant has a trigger named ${JSON.stringify(row.name)}`);
  await db.insertInto("triggers").values(row).execute();
  return toTrigger(row);
}

export async function listTriggers(db: Db, tenantId: string): Promise<readonly TriggerRecord[]> {
  const rows = await db.selectFrom("triggers").selectAll().where("tenant_id", "=", tenantId).orderBy("name").execute();
  return rows.map(toTrigger);
}

/** Returns a trigger of any tenant: its id is the only thing that a sender knows. */
export async function findTrigger(db: Db, id: string): Promise<TriggersTable | undefined> {
  return await db.selectFrom("triggers").selectAll().where("id", "=", id).executeTakeFirst();
}

export async function updateTrigger(
  db: Db,
  { tenantId, id }: { readonly tenantId: string; readonly id: string },
  changes: Changes<TriggersTable, "state" | "alias">,
): Promise<TriggerRecord | undefined> {
  const row = await db
    .updateTable("triggers")
    .set({ ...changes, updated_at: Date.now() })
    .where("tenant_id", "=", tenantId)
    .where("id", "=", id)
    .returningAll()
    .executeTakeFirst();
  return row === undefined ? undefined : toTrigger(row);
}

export async function deleteTrigger(db: Db, tenantId: string, id: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom("triggers")
    .where("tenant_id", "=", tenantId)
    .where("id", "=", id)
    .executeTakeFirst();
  return numDeletedRows > 0n;
}
