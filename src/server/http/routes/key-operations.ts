// Operations of the routes of API keys: they list, create, change and revoke keys, with the rules for what a key may pass on.

import type { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { createApiKey } from "../../auth/api-key.ts";
import { PLATFORM_SCOPES, type Scope } from "../../auth/scopes.ts";
import type { Db } from "../../database/open-database.ts";
import { createId } from "../../ids.ts";
import { quotaStatuses, rateStatus } from "../../quotas/quota-status.ts";
import { appendAudit } from "../../records/audit/audit.ts";
import { countQueued } from "../../records/calls/call-claims.ts";
import {
  type ApiKeyRecord,
  findKeyById,
  insertKey,
  isKeyId,
  isKeyRevoked,
  listKeys,
  makeRoomForKey,
  revokeKey,
  updateKeyLimits,
} from "../../records/tenants/api-keys.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import type { AppEnv, ServerDependencies } from "../context.ts";
import { checkIfMatch, withEtag } from "../entity-tag.ts";
import { nextCursor, toPage } from "../pages.ts";
import { notFound, RequestError } from "../request-error.ts";
import type { KeyChangesSchema, NewKeySchema } from "../schemas/tenants.ts";
import { changedLimits, newLimits } from "./key-limits.ts";

/** Maximum number of keys of a tenant, and of the platform. */
const MAX_KEYS = 1_000;
/** Maximum number of queued calls of a key without a limit that are counted. */
const MAX_COUNTED = 1_000_000;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/**
 * Checks that a key passes on only scopes that it has itself, and a tenant's key none of the platform.
 * @throws {RequestError} FORBIDDEN
 */
function checkScopes(scopes: readonly Scope[], own: ReadonlySet<Scope>, tenantId: string | null): void {
  const missing = scopes.filter((scope) => !own.has(scope));
  if (missing.length > 0) {
    throw new RequestError("FORBIDDEN", `A key can pass on only its own scopes. Missing: ${missing.join(", ")}`, {
      details: { missing },
    });
  }
  const reserved = tenantId === null ? [] : scopes.filter((scope) => PLATFORM_SCOPES.has(scope));
  if (reserved.length === 0) return;
  throw new RequestError("FORBIDDEN", `A tenant's key cannot have ${reserved.join(", ")}`, { details: { reserved } });
}

/** Returns when a new key expires: with its creator, or earlier. @throws {RequestError} FORBIDDEN for a later time */
function expiryOf(
  { expiresInDays, expiresInMinutes }: Pick<z.infer<typeof NewKeySchema>, "expiresInDays" | "expiresInMinutes">,
  { own, now }: { readonly own: number | null; readonly now: number },
): number | null {
  if (expiresInDays !== undefined && expiresInMinutes !== undefined)
    throw new RequestError("INVALID", "Expected expiresInDays or expiresInMinutes, got both");
  const lifetimeMs =
    expiresInDays === undefined ? expiresInMinutes && expiresInMinutes * MINUTE_MS : expiresInDays * DAY_MS;
  if (lifetimeMs === undefined) return own;
  const expiresAt = now + lifetimeMs;
  if (own === null || expiresAt <= own) return expiresAt;
  const name = expiresInDays === undefined ? "expiresInMinutes" : "expiresInDays";
  const message = `${name}: This key expires at ${new Date(own).toISOString()}, and cannot create one that expires later. Leave ${name} out to have both expire then`;
  throw new RequestError("FORBIDDEN", message, { details: { expiresAt: own } });
}

/** @throws {RequestError} UNAUTHENTICATED if the key was revoked since the request began */
async function checkSender(transaction: Db, keyId: string): Promise<void> {
  if (isKeyId(keyId) && (await isKeyRevoked(transaction, keyId)))
    throw new RequestError("UNAUTHENTICATED", "The key that sends the request was revoked");
}

/** Returns a key as the API shows it. */
const showKey = ({ callLimits, ...key }: ApiKeyRecord) =>
  withEtag(
    {
      ...key,
      limits: callLimits.limits ?? null,
      quotas: callLimits.quotas ?? null,
      maxAsyncCalls: callLimits.maxAsyncCalls ?? null,
    },
    ["rateLimit", "limits", "quotas", "maxAsyncCalls"],
  );

type ShownKey = ReturnType<typeof showKey>;

/** Returns a page of the keys of a tenant, or with null of those of the platform. */
export async function listKeyPage(
  { database }: ServerDependencies,
  tenantId: string | null,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string | undefined },
): Promise<{ readonly items: readonly ShownKey[]; readonly next: string | null }> {
  const page = toPage(await listKeys(database.db, tenantId, { after: cursor, limit: limit + 1 }), limit);
  return { items: page.rows.map(showKey), next: nextCursor(page, ({ id }) => id) };
}

/** Creates a key of a tenant, or with null of the platform. It has no scope, limit or lifetime that the sender's key lacks. */
export async function createKey(
  { database }: ServerDependencies,
  c: Context<AppEnv>,
  tenantId: string | null,
  { name, scopes, rateLimit: limit, limits, quotas, maxAsyncCalls, ...lifetime }: z.infer<typeof NewKeySchema>,
): Promise<ShownKey & { readonly key: string }> {
  const own = c.get("principal");
  checkScopes(scopes, own.scopes, tenantId);
  // Of the key itself: a session or token that ends earlier does not shorten what a person creates with it.
  const creator = await findKeyById(database.db, own.keyId);
  const { rateLimit, callLimits } = newLimits(
    { rateLimit: limit, callLimits: { limits, quotas, maxAsyncCalls } },
    { rateLimit: own.rateLimit, callLimits: creator?.callLimits ?? {} },
  );
  const expiresAt = expiryOf(lifetime, { own: creator?.expiresAt ?? null, now: database.clock.now() });
  const { key, hash, prefix } = createApiKey();
  const stored = await changeExclusively(database, async (transaction) => {
    // A key that was revoked since the request began creates no other one, whose limits would be those of no creator.
    await checkSender(transaction, own.keyId);
    if (!(await makeRoomForKey(transaction, tenantId, { limit: MAX_KEYS, now: database.clock.now() })))
      throw new RequestError(
        "INVALID",
        `${tenantId === null ? "The platform" : "A tenant"} can have at most ${MAX_KEYS} valid keys`,
      );
    const row = await insertKey(transaction, {
      id: createId("key"),
      tenantId,
      name,
      prefix,
      scopes,
      expiresAt,
      rateLimit,
      callLimits,
      hash,
    });
    await appendAudit(transaction, {
      actor: c.get("actor"),
      tenantId,
      action: "key.created",
      target: row.id,
      details: { name, scopes, expiresAt, rateLimit, ...callLimits },
    });
    return row;
  });
  return { ...showKey(stored), key };
}

/** Returns a key with what it uses of its limits now. @throws {RequestError} NOT_FOUND */
export async function findKeyWithUse(
  { database, calls, quotas, runningCounts }: ServerDependencies,
  tenantId: string | null,
  id: string,
) {
  const key = await findKeyById(database.db, id);
  if (key === undefined || key.tenantId !== tenantId) throw notFound("key", id);
  await calls.flush();
  const { limits, maxAsyncCalls = null } = key.callLimits;
  const counters = await quotas.read(id);
  const rate = key.rateLimit && rateStatus(key.rateLimit, counters.get("requests"), quotas.now());
  const { running, waiting } = await runningCounts.of({ kind: "key", id });
  return {
    ...showKey(key),
    use: {
      quotas: [
        ...(rate === null ? [] : [rate]),
        ...quotaStatuses({ quotas: key.callLimits.quotas }, counters, quotas.now()),
      ],
      concurrency: { limit: limits?.maxConcurrentCalls ?? null, used: running },
      waiting: { limit: limits?.maxQueuedCalls ?? null, used: waiting },
      queue: {
        limit: maxAsyncCalls,
        used: await countQueued(database.db, { keyId: id }, maxAsyncCalls ?? MAX_COUNTED),
      },
    },
  };
}

/** Changes the limits of a key, at most to those of the sender. @throws {RequestError} NOT_FOUND; CONFLICT for a key that counts no more */
export async function changeKey(
  { database, authenticator, callerLimits, slots }: ServerDependencies,
  c: Context<AppEnv>,
  tenantId: string | null,
  id: string,
  changes: z.infer<typeof KeyChangesSchema>,
): Promise<ShownKey> {
  const { keyId, rateLimit } = c.get("principal");
  const changed = await changeExclusively(database, async (transaction) => {
    await checkSender(transaction, keyId);
    const key = await findKeyById(transaction, id);
    if (key === undefined || key.tenantId !== tenantId) throw notFound("key", id);
    checkIfMatch(c, showKey(key).etag);
    // One that counts no more would only seem to be limited, or to be usable again.
    if (key.revokedAt !== null) throw new RequestError("CONFLICT", "The key was revoked, so its limits cannot change");
    if (key.expiresAt !== null && key.expiresAt <= database.clock.now())
      throw new RequestError("CONFLICT", "The key has expired, so its limits cannot change");
    // Read again: the limits of the sender can have changed since the request began.
    const sender = await findKeyById(transaction, keyId);
    const own = {
      rateLimit: sender === undefined ? rateLimit : sender.rateLimit,
      callLimits: sender?.callLimits ?? {},
    };
    const limits = changedLimits(key, changes, own);
    await updateKeyLimits(transaction, id, limits);
    await appendAudit(transaction, {
      actor: c.get("actor"),
      tenantId,
      action: "key.changed",
      target: id,
      details: { rateLimit: limits.rateLimit, ...limits.callLimits },
    });
    return { ...key, ...limits };
  });
  authenticator.clear();
  callerLimits.forget(id);
  await slots.applyKeyLimit(id);
  return showKey(changed);
}

/** Revokes a key at once. @throws {RequestError} NOT_FOUND */
export async function revokeKeyNow(
  { database, authenticator }: ServerDependencies,
  c: Context<AppEnv>,
  tenantId: string | null,
  id: string,
): Promise<void> {
  const isRevoked = await changeExclusively(database, async (transaction) => {
    const revoked = await revokeKey(transaction, id, tenantId);
    if (revoked)
      await appendAudit(transaction, {
        actor: c.get("actor"),
        tenantId,
        action: "key.revoked",
        target: id,
        details: {},
      });
    return revoked;
  });
  authenticator.clear();
  if (!isRevoked) throw new RequestError("NOT_FOUND", "There is no such key");
}
