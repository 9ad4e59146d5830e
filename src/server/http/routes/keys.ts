// Routes of API keys: those of the platform, and those of a tenant.
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { createApiKey } from "../../auth/api-key.ts";
import { PLATFORM_SCOPES, type Scope } from "../../auth/scopes.ts";
import { createId } from "../../ids.ts";
import { type ApiKey, insertKey, listKeys, revokeKey } from "../../records/api-keys.ts";
import { appendAudit } from "../../records/audit.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import type { App, AppEnv, ServerParts } from "../context.ts";
import { RequestError } from "../problem.ts";
import { addRoute, json } from "../route.ts";
import { CreatedKeySchema, IdSchema, KeySchema, NewKeySchema, OkSchema, pageOf } from "../schemas.ts";
import { TenantParamsSchema } from "./tenants.ts";

const DAY_MS = 86_400_000;
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

export function addKeyRoutes(app: App, parts: ServerParts): void {
  const { database, authenticator } = parts;
  const list = async (tenantId: string | null): Promise<object> => ({
    items: await listKeys(database.db, tenantId),
    next: null,
  });

  const create = async (
    c: Context<AppEnv>,
    tenantId: string | null,
    { name, scopes, expiresInDays, expiresInMinutes, rateLimit: limit }: z.infer<typeof NewKeySchema>,
  ): Promise<ApiKey & { readonly key: string }> => {
    checkScopes(scopes, c.get("principal").scopes, tenantId);
    const rateLimit = limit ?? null;
    const { key, hash, prefix } = createApiKey();
    if (expiresInDays !== undefined && expiresInMinutes !== undefined)
      throw new RequestError("INVALID", "Expected expiresInDays or expiresInMinutes, got both");
    const lifetimeMs =
      expiresInDays === undefined ? expiresInMinutes && expiresInMinutes * 60_000 : expiresInDays * DAY_MS;
    const expiresAt = lifetimeMs === undefined ? null : Date.now() + lifetimeMs;
    const stored = await changeExclusively(database, async (transaction) => {
      const row = await insertKey(transaction, {
        id: createId("key"),
        tenantId,
        name,
        prefix,
        scopes,
        expiresAt,
        rateLimit,
        hash,
      });
      await appendAudit(transaction, {
        actor: c.get("actor"),
        tenantId,
        action: "key.created",
        target: row.id,
        details: { name, scopes, expiresAt, rateLimit },
      });
      return row;
    });
    return { ...stored, key };
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
    parts,
    "GET /v1/keys",
    {
      summary: "Lists the keys of the platform",
      responses: { 200: json(pageOf(KeySchema), "The keys") },
    },
    async (c, _input) => c.json(await list(null), 200),
  );
  addRoute(
    app,
    parts,
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
    parts,
    "DELETE /v1/keys/{key}",
    {
      summary: "Revokes a key at once",
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
    parts,
    "GET /v1/tenants/{tenant}/keys",
    {
      summary: "Lists the keys of a tenant",
      params: TenantParamsSchema,
      responses: { 200: json(pageOf(KeySchema), "The keys") },
    },
    async (c, _input) => c.json(await list(c.get("tenant").id), 200),
  );
  addRoute(
    app,
    parts,
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
    parts,
    "DELETE /v1/tenants/{tenant}/keys/{key}",
    {
      summary: "Revokes a key of a tenant at once",
      params: TenantKeyParamsSchema,
      responses: { 200: json(OkSchema, "Revoked") },
    },
    async (c, input) => {
      await revoke(c, c.get("tenant").id, input.params.key);
      return c.json({ ok: true } as const, 200);
    },
  );
}
