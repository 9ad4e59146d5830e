// Stores API keys: their hashes, scopes and owners.
import * as z from "zod";
import { isSameHash } from "../auth/api-key.ts";
import { SCOPES, type Scope } from "../auth/scopes.ts";
import type { Db } from "../database/open-database.ts";
import type { ApiKeysTable } from "../database/schema.ts";
import { readJson } from "./json.ts";

export const KeyRateLimitSchema = z.strictObject({
  calls: z.int().min(1).max(1_000_000),
  per: z.enum(["second", "minute"]),
  burst: z.int().min(1).max(1_000_000).optional(),
});
/** Requests per period, and how many may come at once (default: `calls`). */
export type KeyRateLimit = z.infer<typeof KeyRateLimitSchema>;

export interface ApiKey {
  readonly id: string;
  /** Null for a key of the platform. */
  readonly tenantId: string | null;
  readonly name: string;
  readonly prefix: string;
  readonly scopes: readonly Scope[];
  /** Limit of the requests with this key; null for none. */
  readonly rateLimit: KeyRateLimit | null;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly lastUsedAt: number | null;
  readonly revokedAt: number | null;
}

const ScopesSchema = z.array(z.enum(SCOPES));

const toApiKey = (row: ApiKeysTable): ApiKey => ({
  ...{ id: row.id, tenantId: row.tenant_id, name: row.name, prefix: row.prefix },
  scopes: readJson(ScopesSchema, row.scopes, "list of scopes"),
  rateLimit: row.rate_limit === null ? null : readJson(KeyRateLimitSchema, row.rate_limit, "rate limit of a key"),
  ...{ createdAt: row.created_at, expiresAt: row.expires_at, lastUsedAt: row.last_used_at, revokedAt: row.revoked_at },
});

/** Returns the key with this hash, revoked and expired ones included. */
export async function findKeyByHash(db: Db, hash: string): Promise<ApiKey | undefined> {
  const row = await db.selectFrom("api_keys").selectAll().where("hash", "=", hash).executeTakeFirst();
  return row === undefined || !isSameHash(row.hash, hash) ? undefined : toApiKey(row);
}

/** Returns the key with this id, revoked and expired ones included. */
export async function findKeyById(db: Db, id: string): Promise<ApiKey | undefined> {
  const row = await db.selectFrom("api_keys").selectAll().where("id", "=", id).executeTakeFirst();
  return row && toApiKey(row);
}

export async function insertKey(
  db: Db,
  key: Pick<ApiKey, "id" | "tenantId" | "name" | "prefix" | "scopes" | "expiresAt" | "rateLimit"> & {
    readonly hash: string;
  },
): Promise<ApiKey> {
  const row: ApiKeysTable = {
    ...{ id: key.id, tenant_id: key.tenantId, name: key.name, hash: key.hash, prefix: key.prefix },
    ...{ scopes: JSON.stringify(key.scopes), created_at: Date.now(), expires_at: key.expiresAt },
    rate_limit: key.rateLimit === null ? null : JSON.stringify(key.rateLimit),
    ...{ last_used_at: null, revoked_at: null },
  };
  await db.insertInto("api_keys").values(row).execute();
  return toApiKey(row);
}

export async function listKeys(db: Db, tenantId: string | null): Promise<readonly ApiKey[]> {
  const query = db.selectFrom("api_keys").selectAll().orderBy("id");
  const own = tenantId === null ? query.where("tenant_id", "is", null) : query.where("tenant_id", "=", tenantId);
  return (await own.execute()).map(toApiKey);
}

/** Revokes a key. Returns false if the owner has no such key, or it is revoked already. */
export async function revokeKey(db: Db, id: string, tenantId: string | null): Promise<boolean> {
  const query = db
    .updateTable("api_keys")
    .set({ revoked_at: Date.now() })
    .where("id", "=", id)
    .where("revoked_at", "is", null);
  const own = tenantId === null ? query.where("tenant_id", "is", null) : query.where("tenant_id", "=", tenantId);
  const { numUpdatedRows } = await own.executeTakeFirst();
  return numUpdatedRows > 0n;
}

export async function hasPlatformKey(db: Db): Promise<boolean> {
  const row = await db
    .selectFrom("api_keys")
    .select("id")
    .where("tenant_id", "is", null)
    .where("revoked_at", "is", null)
    .executeTakeFirst();
  return row !== undefined;
}

/** Stores when keys were last used. */
export async function storeLastUses(db: Db, uses: ReadonlyMap<string, number>): Promise<void> {
  for (const [id, at] of uses) {
    await db.updateTable("api_keys").set({ last_used_at: at }).where("id", "=", id).execute();
  }
}
