// Stores the secrets of tenants, encrypted under the master key. The API never returns a value.
import * as z from "zod";
import { type Secrets, ToolError } from "../../../host/index.ts";
import type { Db } from "../../database/open-database.ts";
import type { SecretsTable } from "../../database/tables/tenant-tables.ts";
import type { MasterKey } from "../../secrets/master-key.ts";
import { parseColumn } from "../json.ts";
import { checkStoredBytes } from "./stored-bytes.ts";

/** Maximum number of secrets of a tenant, as the library allows. */
const MAX_SECRETS = 64;
const HostsSchema = z.array(z.string());

/** A secret without its value. */
export interface SecretInfo {
  readonly name: string;
  readonly hosts: readonly string[];
  readonly changedBy: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

const toInfo = (row: Omit<SecretsTable, "sealed" | "tenant_id">): SecretInfo => ({
  name: row.name,
  hosts: parseColumn(HostsSchema, row.hosts, "list of hosts"),
  changedBy: row.changed_by,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
});

export async function listSecrets(db: Db, tenantId: string): Promise<readonly SecretInfo[]> {
  const rows = await db
    .selectFrom("secrets")
    .select(["name", "hosts", "changed_by", "created_at", "updated_at"])
    .where("tenant_id", "=", tenantId)
    .orderBy("name")
    .execute();
  return rows.map(toInfo);
}

/** Returns the secrets of a tenant as an option of the library. A value is decrypted when a call needs it. */
export async function readSecrets(db: Db, key: MasterKey, tenantId: string): Promise<Secrets> {
  const rows = await db.selectFrom("secrets").selectAll().where("tenant_id", "=", tenantId).execute();
  return Object.fromEntries(
    rows.map(({ name, hosts, sealed }) => {
      const value = (): string => key.open(sealed, { table: "secrets", tenantId, name });
      return [name, { value, hosts: parseColumn(HostsSchema, hosts, "list of hosts") }];
    }),
  );
}

export interface NewSecret {
  readonly name: string;
  readonly value: string;
  readonly hosts: readonly string[];
  readonly changedBy: string;
}

/** Creates a secret, or replaces its value and hosts. @throws {ToolError} QUOTA_EXCEEDED */
export async function storeSecret(
  db: Db,
  key: MasterKey,
  tenantId: string,
  { name, value, hosts, changedBy }: NewSecret,
): Promise<SecretInfo> {
  const now = Date.now();
  const others = (await listSecrets(db, tenantId)).filter((secret) => secret.name !== name);
  if (others.length >= MAX_SECRETS)
    throw new ToolError("QUOTA_EXCEEDED", `The tenant has ${others.length} secrets, which is the largest number`);
  const changes = {
    sealed: key.seal(value, { table: "secrets", tenantId, name }),
    hosts: JSON.stringify(hosts),
    changed_by: changedBy,
    updated_at: now,
  };
  const known = await db
    .selectFrom("secrets")
    .select("sealed")
    .where("tenant_id", "=", tenantId)
    .where("name", "=", name)
    .executeTakeFirst();
  const bytes = changes.sealed.byteLength - (known?.sealed.byteLength ?? 0);
  await checkStoredBytes(db, tenantId, { what: "The secret", bytes });
  await db
    .insertInto("secrets")
    .values({ tenant_id: tenantId, name, created_at: now, ...changes })
    .onConflict((conflict) => conflict.columns(["tenant_id", "name"]).doUpdateSet(changes))
    .execute();
  return (await listSecrets(db, tenantId)).find((secret) => secret.name === name) as SecretInfo;
}

/** Deletes a secret. Returns false if there is none of this name. */
export async function deleteSecret(db: Db, tenantId: string, name: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom("secrets")
    .where("tenant_id", "=", tenantId)
    .where("name", "=", name)
    .executeTakeFirst();
  return numDeletedRows > 0n;
}
