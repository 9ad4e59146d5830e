// Stores API keys: their hashes, scopes and owners.
import type { ExpressionBuilder } from "kysely";
import * as z from "zod";
import { LimitsObjectSchema } from "../../../sandbox/contract/partial-limits.ts";
import { isSameHash } from "../../auth/api-key.ts";
import { type Scope, StoredScopesSchema } from "../../auth/scopes.ts";
import type { Db } from "../../database/open-database.ts";
import type { DatabaseSchema } from "../../database/schema.ts";
import type { ApiKeysTable } from "../../database/tables/tenant-tables.ts";
import { parseColumn } from "../json.ts";
import { RateLimitSchema, TenantPolicySchema, toWholeLimits } from "./tenant-policy.ts";

/** Limit of the requests with a key. */
export type KeyRateLimit = z.infer<typeof RateLimitSchema>;

const ConcurrencyLimitsSchema = LimitsObjectSchema.pick({ maxConcurrentCalls: true, maxQueuedCalls: true });

/** Limits of the calls of a key, in the form that a tenant's policy has them. They apply in addition to the tenant's. */
export const KeyCallLimitsSchema = z.strictObject({
  limits: ConcurrencyLimitsSchema.optional(),
  quotas: TenantPolicySchema.shape.quotas,
  maxAsyncCalls: TenantPolicySchema.shape.maxAsyncCalls
    .unwrap()
    .optional()
    .describe("Maximum number of calls of the key that wait in the queue"),
});
export type KeyCallLimits = z.infer<typeof KeyCallLimitsSchema>;

const StoredCallLimitsSchema = KeyCallLimitsSchema.extend({
  limits: z.preprocess(toWholeLimits, ConcurrencyLimitsSchema).optional(),
});

export interface ApiKeyRecord {
  readonly id: string;
  /** Null for a key of the platform. */
  readonly tenantId: string | null;
  readonly name: string;
  readonly prefix: string;
  readonly scopes: readonly Scope[];
  /** Limit of the requests with this key; null for none. */
  readonly rateLimit: KeyRateLimit | null;
  /** Limits of the calls that the key makes. */
  readonly callLimits: KeyCallLimits;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly lastUsedAt: number | null;
  readonly revokedAt: number | null;
}

/** What the ids of keys begin with. */
const KEY_ID_PREFIX = "key_";

/** Returns whether the id of a caller is that of a key, and not of a user or a schedule. */
export const isKeyId = (callerId: string): boolean => callerId.startsWith(KEY_ID_PREFIX);

const toApiKey = (row: ApiKeysTable): ApiKeyRecord => ({
  id: row.id,
  tenantId: row.tenant_id,
  name: row.name,
  prefix: row.prefix,
  scopes: parseColumn(StoredScopesSchema, row.scopes, "list of scopes"),
  rateLimit: row.rate_limit === null ? null : parseColumn(RateLimitSchema, row.rate_limit, "rate limit of a key"),
  callLimits: row.limits === null ? {} : parseColumn(StoredCallLimitsSchema, row.limits, "limits of a key"),
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  lastUsedAt: row.last_used_at,
  revokedAt: row.revoked_at,
});

const limitColumns = ({ rateLimit, callLimits }: Pick<ApiKeyRecord, "rateLimit" | "callLimits">) => ({
  rate_limit: rateLimit === null ? null : JSON.stringify(rateLimit),
  limits: Object.keys(callLimits).length === 0 ? null : JSON.stringify(callLimits),
});

/** Returns the key with this hash, revoked and expired ones included. */
export async function findKeyByHash(db: Db, hash: string): Promise<ApiKeyRecord | undefined> {
  const row = await db.selectFrom("api_keys").selectAll().where("hash", "=", hash).executeTakeFirst();
  return row === undefined || !isSameHash(row.hash, hash) ? undefined : toApiKey(row);
}

/** Returns the key with this id, revoked and expired ones included. */
export async function findKeyById(db: Db, id: string): Promise<ApiKeyRecord | undefined> {
  const row = await db.selectFrom("api_keys").selectAll().where("id", "=", id).executeTakeFirst();
  return row && toApiKey(row);
}

/** Returns whether a caller was a key that has been revoked since. Callers that are not keys (schedules, tokens) cannot be. */
export async function isKeyRevoked(db: Db, callerId: string): Promise<boolean> {
  if (!isKeyId(callerId)) return false;
  const key = await findKeyById(db, callerId);
  return key === undefined || key.revokedAt !== null;
}

export async function insertKey(
  db: Db,
  key: Pick<ApiKeyRecord, "id" | "tenantId" | "name" | "prefix" | "scopes" | "expiresAt" | "rateLimit"> & {
    readonly hash: string;
    /** Default: none. */
    readonly callLimits?: KeyCallLimits;
  },
): Promise<ApiKeyRecord> {
  const { callLimits = {} } = key;
  const row: ApiKeysTable = {
    id: key.id,
    tenant_id: key.tenantId,
    name: key.name,
    hash: key.hash,
    prefix: key.prefix,
    scopes: JSON.stringify(key.scopes),
    created_at: Date.now(),
    expires_at: key.expiresAt,
    ...limitColumns({ rateLimit: key.rateLimit, callLimits }),
    last_used_at: null,
    revoked_at: null,
  };
  await db.insertInto("api_keys").values(row).execute();
  return toApiKey(row);
}

/** Returns the condition for the keys of a tenant. @param tenantId null for those of the platform */
const isOwnedBy = (tenantId: string | null) => (eb: ExpressionBuilder<DatabaseSchema, "api_keys">) =>
  eb("tenant_id", tenantId === null ? "is" : "=", tenantId);

/** Lists the keys of a tenant, or of the platform, by id. */
export async function listKeys(
  db: Db,
  tenantId: string | null,
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
): Promise<readonly ApiKeyRecord[]> {
  let query = db.selectFrom("api_keys").selectAll().where(isOwnedBy(tenantId)).orderBy("id").limit(limit);
  if (after !== undefined) query = query.where("id", ">", after);
  return (await query.execute()).map(toApiKey);
}

/**
 * Makes room for a new key: if the owner has `limit` keys, the ones that are revoked or expired are removed. Queued calls of such a key then end as
 * those of a revoked one.
 * @param now ms since 1970
 * @returns false if the owner has as many keys that are valid
 */
export async function makeRoomForKey(
  db: Db,
  tenantId: string | null,
  { limit, now }: { readonly limit: number; readonly now: number },
): Promise<boolean> {
  const count = async (): Promise<number> => {
    const { keys } = await db
      .selectFrom("api_keys")
      .select(({ fn }) => fn.countAll<number>().as("keys"))
      .where(isOwnedBy(tenantId))
      .executeTakeFirstOrThrow();
    return Number(keys);
  };
  if ((await count()) < limit) return true;
  await db
    .deleteFrom("api_keys")
    .where(isOwnedBy(tenantId))
    .where(({ eb, or }) => or([eb("revoked_at", "is not", null), eb("expires_at", "<=", now)]))
    .execute();
  return (await count()) < limit;
}

/** Replaces the limits of a key. */
export async function updateKeyLimits(
  db: Db,
  id: string,
  limits: Pick<ApiKeyRecord, "rateLimit" | "callLimits">,
): Promise<void> {
  await db.updateTable("api_keys").set(limitColumns(limits)).where("id", "=", id).execute();
}

/** Revokes a key. Returns false if the owner has no such key, or it is revoked already. */
export async function revokeKey(db: Db, id: string, tenantId: string | null): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("api_keys")
    .set({ revoked_at: Date.now() })
    .where("id", "=", id)
    .where("revoked_at", "is", null)
    .where(isOwnedBy(tenantId))
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/**
 * Returns whether the platform has a key that is neither revoked nor expired.
 * @param now ms since 1970
 */
export async function hasPlatformKey(db: Db, now: number): Promise<boolean> {
  const row = await db
    .selectFrom("api_keys")
    .select("id")
    .where("tenant_id", "is", null)
    .where("revoked_at", "is", null)
    .where(({ eb, or }) => or([eb("expires_at", "is", null), eb("expires_at", ">", now)]))
    .executeTakeFirst();
  return row !== undefined;
}

/** Stores when keys were last used. */
export async function storeLastUses(db: Db, uses: ReadonlyMap<string, number>): Promise<void> {
  for (const [id, at] of uses) {
    await db.updateTable("api_keys").set({ last_used_at: at }).where("id", "=", id).execute();
  }
}
