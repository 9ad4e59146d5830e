// Routes of API keys: those of the platform, and those of a tenant.
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { createApiKey } from "../../auth/api-key.ts";
import { PLATFORM_SCOPES, type Scope } from "../../auth/scopes.ts";
import { createId } from "../../ids.ts";
import { quotaStatuses, rateStatus } from "../../quotas/quota-status.ts";
import {
  type ApiKeyRecord,
  findKeyById,
  insertKey,
  isKeyId,
  isKeyRevoked,
  type KeyCallLimits,
  type KeyRateLimit,
  listKeys,
  makeRoomForKey,
  revokeKey,
} from "../../records/api-keys.ts";
import { appendAudit } from "../../records/audit.ts";
import { countQueued } from "../../records/call-claims.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { notFound, RequestError } from "../problem.ts";
import { addRoute, json } from "../route.ts";
import {
  CreatedKeySchema,
  IdSchema,
  idPageQuery,
  KeySchema,
  KeyWithUseSchema,
  NewKeySchema,
  OkSchema,
  pageOf,
} from "../schemas.ts";
import { TenantParamsSchema } from "./tenants.ts";

/** Most keys of a tenant, and of the platform. */
const MAX_KEYS = 1_000;
/** Most queued calls of a key without a limit that are counted. */
const MAX_COUNTED = 1_000_000;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const KEPT =
  "Keys that it has created stay valid: the audit log lists them as `key.created`, with this key as the actor.";
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

const perMinute = ({ calls, per }: KeyRateLimit): number => (per === "second" ? calls * 60 : calls);
const burstOf = ({ calls, burst = calls }: KeyRateLimit): number => burst;

/** Returns the rate limit of a new key: that of its creator, or a lower one. @throws {RequestError} FORBIDDEN for a higher one */
function rateLimitOf(given: KeyRateLimit | undefined, own: KeyRateLimit | null): KeyRateLimit | null {
  if (given === undefined || own === null) return given ?? own;
  if (perMinute(given) <= perMinute(own) && burstOf(given) <= burstOf(own)) return given;
  const message = `rateLimit: Expected at most that of this key: ${own.calls} requests per ${own.per}, and ${burstOf(own)} at once (burst)`;
  throw new RequestError("FORBIDDEN", message, { details: { rateLimit: own } });
}

/** The members of a key's limits as the API has them, each with its path. */
const LIMIT_PATHS: readonly (readonly string[])[] = [
  ["limits", "maxConcurrentCalls"],
  ["limits", "maxQueuedCalls"],
  ["maxAsyncCalls"],
  ...["calls", "cpuMs", "egressBytes"].flatMap((resource) =>
    ["minute", "hour", "day", "month"].map((period) => ["quotas", resource, period]),
  ),
];
const readPath = (value: unknown, path: readonly string[]): number | undefined =>
  path.reduce<unknown>((at, name) => (at as { readonly [name: string]: unknown } | undefined)?.[name], value) as
    | number
    | undefined;

/**
 * Returns the limits of the calls of a new key: those of its creator, or lower ones. What the creator has and the request leaves out, the key has
 * too.
 * @throws {RequestError} FORBIDDEN for a higher one
 */
function callLimitsOf(given: KeyCallLimits, own: KeyCallLimits): KeyCallLimits {
  for (const path of LIMIT_PATHS) {
    const [asked, most] = [readPath(given, path), readPath(own, path)];
    if (asked === undefined || most === undefined || asked <= most) continue;
    const name = path.join(".");
    throw new RequestError("FORBIDDEN", `${name}: Expected at most that of this key, ${most}`, {
      details: { limit: name, allowed: most },
    });
  }
  return mergeLimits(own, given) as KeyCallLimits;
}

function mergeLimits(own: object, given: object): object {
  const merged: { [name: string]: unknown } = { ...own };
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    const before = merged[name];
    merged[name] =
      typeof value === "object" && typeof before === "object" ? mergeLimits(before as object, value) : value;
  }
  return merged;
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
    const rateLimit = rateLimitOf(limit, own.rateLimit);
    // Of the key itself: a session or token that ends earlier does not shorten what a person creates with it.
    const creator = await findKeyById(database.db, own.keyId);
    const callLimits = callLimitsOf({ limits, quotas, maxAsyncCalls }, creator?.callLimits ?? {});
    const expiresAt = expiryOf(lifetime, { own: creator?.expiresAt ?? null, now: database.clock.now() });
    const { key, hash, prefix } = createApiKey();
    const stored = await changeExclusively(database, async (transaction) => {
      // A key that was revoked since the request began creates no other one, whose limits would be those of no creator.
      if (isKeyId(own.keyId) && (await isKeyRevoked(transaction, own.keyId)))
        throw new RequestError("UNAUTHENTICATED", "The key that sends the request was revoked");
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
