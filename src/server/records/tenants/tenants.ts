// Stores tenants: their policy, their state, and the revision that tells server processes when something of a tenant has changed.
import { type RawBuilder, sql } from "kysely";
import { ToolError } from "../../../host/index.ts";
import type { Db } from "../../database/open-database.ts";
import type { Changes } from "../../database/schema.ts";
import type { TenantsTable } from "../../database/tables/tenant-tables.ts";
import { type BoundedPage, bytesOfTexts, readBoundedPage } from "../bounded-page.ts";
import { parseColumn } from "../json.ts";
import { type ServerTenantPolicy, TenantPolicySchema } from "./tenant-policy.ts";

/** Form of the ids of tenants. */
export const TENANT_ID_PATTERN = /^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$/;

export interface TenantRecord {
  readonly id: string;
  readonly name: string;
  readonly state: TenantsTable["state"];
  readonly policy: ServerTenantPolicy;
  readonly revision: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

const toTenant = (row: TenantsTable): TenantRecord => ({
  id: row.id,
  name: row.name,
  state: row.state,
  policy: parseColumn(TenantPolicySchema, row.policy, "policy of a tenant"),
  revision: row.revision,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
});

export async function findTenant(db: Db, id: string): Promise<TenantRecord | undefined> {
  const row = await db.selectFrom("tenants").selectAll().where("id", "=", id).executeTakeFirst();
  return row === undefined ? undefined : toTenant(row);
}

/** Returns a page of the tenants by id. */
export async function listTenants(
  db: Db,
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
): Promise<BoundedPage<TenantRecord>> {
  const all = db.selectFrom("tenants").selectAll().orderBy("id");
  const read = async (last: TenantsTable | undefined, size: number): Promise<readonly TenantsTable[]> => {
    const from = last?.id ?? after;
    return await (from === undefined ? all : all.where("id", ">", from)).limit(size).execute();
  };
  const { rows, hasMore } = await readBoundedPage(limit, read, ({ policy }) => bytesOfTexts(policy));
  return { rows: rows.map(toTenant), hasMore };
}

/** @throws {ToolError} NAME_TAKEN */
export async function insertTenant(
  db: Db,
  { id, name, policy }: Pick<TenantRecord, "id" | "name" | "policy">,
): Promise<TenantRecord> {
  if ((await findTenant(db, id)) !== undefined) {
    throw new ToolError("NAME_TAKEN", `The id "${id}" is taken by another tenant`);
  }
  const now = Date.now();
  const row: TenantsTable = {
    id,
    name,
    state: "active",
    policy: JSON.stringify(policy),
    revision: 1,
    created_at: now,
    updated_at: now,
  };
  await db.insertInto("tenants").values(row).execute();
  return toTenant(row);
}

export async function updateTenant(
  db: Db,
  id: string,
  changes: Changes<TenantRecord, "name" | "state" | "policy">,
): Promise<void> {
  const { policy, ...rest } = changes;
  await db
    .updateTable("tenants")
    .set((column) => ({
      ...rest,
      ...(policy === undefined ? {} : { policy: JSON.stringify(policy) }),
      revision: column("revision", "+", 1),
      updated_at: Date.now(),
    }))
    .where("id", "=", id)
    .execute();
}

/**
 * Denies the calls of a tenant because it is being deleted, and locks its row.
 * @returns false if it was deleted. A new tenant can have its id
 */
export async function markDeleting(
  db: Db,
  { id, createdAt }: Pick<TenantRecord, "id" | "createdAt">,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("tenants")
    .set((column) => ({ state: "deleting", revision: column("revision", "+", 1), updated_at: Date.now() }))
    .where("id", "=", id)
    .where("created_at", "=", createdAt)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/**
 * Returns a condition for deletions by a tenant's id alone: no tenant has the id, or one that is being deleted. Another request can have ended
 * the deletion, and the id can be that of a new tenant.
 */
export const isNotInUse = (tenantId: string): RawBuilder<boolean> =>
  sql<boolean>`not exists (select 1 from tenants where id = ${tenantId} and state <> 'deleting')`;

/** Marks that something of a tenant has changed. Part of every change of its tools and releases. */
export async function touchTenant(db: Db, id: string): Promise<void> {
  await updateTenant(db, id, {});
}
