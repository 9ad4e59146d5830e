// Routes of API keys: those of the platform, and those of a tenant.
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { createApiKey } from "../../auth/api-key.ts";
import { PLATFORM_SCOPES, type Scope } from "../../auth/scopes.ts";
import type { Db } from "../../database/open-database.ts";
import { createId } from "../../ids.ts";
import { quotaStatuses, rateStatus } from "../../quotas/quota-status.ts";
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
} from "../../records/api-keys.ts";
import { appendAudit } from "../../records/audit.ts";
import { countQueued } from "../../records/call-claims.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { notFound, RequestError } from "../problem.ts";
import { addRoute, json } from "../route.ts";
import { IdSchema, idPageQuery, OkSchema, pageOf } from "../schemas/common.ts";
import { KeyWithUseSchema } from "../schemas/operation.ts";
import { CreatedKeySchema, KeyChangesSchema, KeySchema, NewKeySchema } from "../schemas/tenants.ts";
import { changedLimits, newLimits } from "./key-limits.ts";
import { TenantParamsSchema } from "./tenants.ts";

/** Most keys of a tenant, and of the platform. */
const MAX_KEYS = 1_000;
/** Most queued calls of a key without a limit that are counted. */
const MAX_COUNTED = 1_000_000;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const KEPT =
  "Keys that it has created stay valid: the audit log lists them as `key.created`, with this key as the actor.";
const CHANGES =
  "Each member replaces the one before as a whole, null removes it, and what is left out stays. They apply to requests and calls that begin afterwards, at every replica within a second. A key can raise limits only up to its own. Keys that the changed key has created keep theirs.";
const KeyPageSchema = idPageQuery("key");
const KeyParamsSchema = z.strictObject({ key: IdSchema });
const TenantKeyParamsSchema = TenantParamsSchema.extend({ key: IdSchema });

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
const showKey = ({ callLimits, ...key }: ApiKeyRecord) => ({
  ...key,
  limits: callLimits.limits ?? null,
  quotas: callLimits.quotas ?? null,
  maxAsyncCalls: callLimits.maxAsyncCalls ?? null,
});

export function addKeyRoutes(app: App, dependencies: ServerDependencies): void {
  const { database, authenticator } = dependencies;
  const list = async (tenantId: string | null, { limit, cursor }: z.infer<typeof KeyPageSchema>): Promise<object> => {
    const keys = await listKeys(database.db, tenantId, { after: cursor, limit: limit + 1 });
    const items = keys.slice(0, limit).map(showKey);
    return { items, next: keys.length > limit ? (items.at(-1)?.id ?? null) : null };
  };

  const create = async (
    c: Context<AppEnv>,
    tenantId: string | null,
    { name, scopes, rateLimit: limit, limits, quotas, maxAsyncCalls, ...lifetime }: z.infer<typeof NewKeySchema>,
  ): Promise<ReturnType<typeof showKey> & { readonly key: string }> => {
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
  };
  /** Returns a key with what it uses of its limits now. */
  const find = async (tenantId: string | null, id: string): Promise<object> => {
    const key = await findKeyById(database.db, id);
    if (key === undefined || key.tenantId !== tenantId) throw notFound("key", id);
    await dependencies.calls.flush();
    const { limits, maxAsyncCalls = null } = key.callLimits;
    const counters = await dependencies.quotas.read(id);
    const rate = key.rateLimit && rateStatus(key.rateLimit, counters.get("requests"), dependencies.quotas.now());
    const { running, waiting } = await dependencies.runningCounts.of({ kind: "key", id });
    return {
      ...showKey(key),
      use: {
        quotas: [
          ...(rate === null ? [] : [rate]),
          ...quotaStatuses({ quotas: key.callLimits.quotas }, counters, dependencies.quotas.now()),
        ],
        concurrency: { limit: limits?.maxConcurrentCalls ?? null, used: running },
        waiting: { limit: limits?.maxQueuedCalls ?? null, used: waiting },
        queue: {
          limit: maxAsyncCalls,
          used: await countQueued(database.db, { keyId: id }, maxAsyncCalls ?? MAX_COUNTED),
        },
      },
    };
  };
  const change = async (
    c: Context<AppEnv>,
    tenantId: string | null,
    id: string,
    changes: z.infer<typeof KeyChangesSchema>,
  ): Promise<ReturnType<typeof showKey>> => {
    const { keyId, rateLimit } = c.get("principal");
    const changed = await changeExclusively(database, async (transaction) => {
      await checkSender(transaction, keyId);
      const key = await findKeyById(transaction, id);
      if (key === undefined || key.tenantId !== tenantId) throw notFound("key", id);
      // One that counts no more would only seem to be limited, or to be usable again.
      if (key.revokedAt !== null)
        throw new RequestError("CONFLICT", "The key was revoked, so its limits cannot change");
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
        ...{ actor: c.get("actor"), tenantId, action: "key.changed", target: id },
        details: { rateLimit: limits.rateLimit, ...limits.callLimits },
      });
      return { ...key, ...limits };
    });
    authenticator.clear();
    dependencies.callerLimits.forget(id);
    await dependencies.slots.applyKeyLimit(id);
    return showKey(changed);
  };
  const revoke = async (c: Context<AppEnv>, tenantId: string | null, id: string): Promise<void> => {
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
  };

  const changedResponses = {
    200: json(KeySchema, "The key"),
    409: { description: "The key was revoked or has expired" },
  };
  const created = { 201: json(CreatedKeySchema, "The key, which is shown only now") };
  addRoute(
    app,
    dependencies,
    "GET /v1/keys",
    {
      summary: "Lists the keys of the platform",
      query: KeyPageSchema,
      responses: { 200: json(pageOf(KeySchema), "The keys") },
    },
    async (c, { query }) => c.json(await list(null, query), 200),
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/keys",
    {
      summary: "Creates a key of the platform, which may act for every tenant",
      body: NewKeySchema,
      responses: created,
    },
    async (c, input) => c.json(await create(c, null, input.body), 201),
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/keys/{key}",
    {
      summary: "Returns a key of the platform, with what it uses of its limits",
      params: KeyParamsSchema,
      responses: { 200: json(KeyWithUseSchema, "The key") },
    },
    async (c, input) => c.json((await find(null, input.params.key)) as never, 200),
  );
  addRoute(
    app,
    dependencies,
    "PATCH /v1/keys/{key}",
    {
      summary: "Changes the limits of a key of the platform",
      description: CHANGES,
      params: KeyParamsSchema,
      body: KeyChangesSchema,
      responses: changedResponses,
    },
    async (c, input) => c.json(await change(c, null, input.params.key, input.body), 200),
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/keys/{key}",
    {
      summary: "Revokes a key at once",
      description: KEPT,
      params: KeyParamsSchema,
      responses: { 200: json(OkSchema, "Revoked") },
    },
    async (c, input) => {
      await revoke(c, null, input.params.key);
      return c.json({ ok: true } as const, 200);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/keys",
    {
      summary: "Lists the keys of a tenant",
      params: TenantParamsSchema,
      query: KeyPageSchema,
      responses: { 200: json(pageOf(KeySchema), "The keys") },
    },
    async (c, { query }) => c.json(await list(c.get("tenant").id, query), 200),
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/keys",
    {
      summary: "Creates a key of a tenant",
      params: TenantParamsSchema,
      body: NewKeySchema,
      responses: created,
    },
    async (c, input) => c.json(await create(c, c.get("tenant").id, input.body), 201),
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/keys/{key}",
    {
      summary: "Returns a key of a tenant, with what it uses of its limits",
      params: TenantKeyParamsSchema,
      responses: { 200: json(KeyWithUseSchema, "The key") },
    },
    async (c, input) => c.json((await find(c.get("tenant").id, input.params.key)) as never, 200),
  );
  addRoute(
    app,
    dependencies,
    "PATCH /v1/tenants/{tenant}/keys/{key}",
    {
      summary: "Changes the limits of a key of a tenant",
      description: CHANGES,
      params: TenantKeyParamsSchema,
      body: KeyChangesSchema,
      responses: changedResponses,
    },
    async (c, input) => c.json(await change(c, c.get("tenant").id, input.params.key, input.body), 200),
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/tenants/{tenant}/keys/{key}",
    {
      summary: "Revokes a key of a tenant at once",
      description: KEPT,
      params: TenantKeyParamsSchema,
      responses: { 200: json(OkSchema, "Revoked") },
    },
    async (c, input) => {
      await revoke(c, c.get("tenant").id, input.params.key);
      return c.json({ ok: true } as const, 200);
    },
  );
}
