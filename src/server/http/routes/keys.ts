// Routes of API keys: those of the platform, and those of a tenant.
import { z } from "@hono/zod-openapi";
import type { App, ServerDependencies } from "../context.ts";
import { respondWithEtag } from "../entity-tag.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { IdSchema, idPageQuery, OkSchema, pageOf } from "../schemas/common.ts";
import { KeyWithUseSchema } from "../schemas/operation.ts";
import { CreatedKeySchema, KeyChangesSchema, KeySchema, NewKeySchema } from "../schemas/tenants.ts";
import { changeKey, createKey, findKeyWithUse, listKeyPage, revokeKeyNow } from "./key-operations.ts";
import { TenantParamsSchema } from "./tenants.ts";

const KEPT =
  "Keys that it has created stay valid: the audit log lists them as `key.created`, with this key as the actor.";
const CHANGES =
  "Each member replaces the one before as a whole, null removes it, and what is left out stays. They apply to requests and calls that begin afterwards, at every replica within a second. A key can raise limits only up to its own. Keys that the changed key has created keep theirs.";
const KeyPageSchema = idPageQuery("key");
const KeyParamsSchema = z.strictObject({ key: IdSchema });
const TenantKeyParamsSchema = TenantParamsSchema.extend({ key: IdSchema });

const CHANGED = {
  200: json(KeySchema, "The key"),
  409: { description: "The key was revoked or has expired" },
};
const CREATED = { 201: json(CreatedKeySchema, "The key, which is shown only now") };

export function addKeyRoutes(app: App, dependencies: ServerDependencies): void {
  addPlatformKeyRoutes(app, dependencies);
  addTenantKeyRoutes(app, dependencies);
}

function addPlatformKeyRoutes(app: App, dependencies: ServerDependencies): void {
  addRoute(
    app,
    dependencies,
    "GET /v1/keys",
    {
      summary: "Lists the keys of the platform",
      query: KeyPageSchema,
      responses: { 200: json(pageOf(KeySchema), "The keys") },
    },
    async (c, { query }) => respondWithJson(c, await listKeyPage(dependencies, null, query)),
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/keys",
    {
      summary: "Creates a key of the platform, which may act for every tenant",
      body: NewKeySchema,
      responses: CREATED,
    },
    async (c, input) => respondWithEtag(c, await createKey(dependencies, c, null, input.body), 201),
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
    async (c, input) => respondWithEtag(c, await findKeyWithUse(dependencies, null, input.params.key)),
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
      isConditional: true,
      responses: CHANGED,
    },
    async (c, input) => respondWithEtag(c, await changeKey(dependencies, c, null, input.params.key, input.body)),
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
      await revokeKeyNow(dependencies, c, null, input.params.key);
      return respondWithJson(c, { ok: true });
    },
  );
}

function addTenantKeyRoutes(app: App, dependencies: ServerDependencies): void {
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
    async (c, { query }) => respondWithJson(c, await listKeyPage(dependencies, c.get("tenant").id, query)),
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/keys",
    {
      summary: "Creates a key of a tenant",
      params: TenantParamsSchema,
      body: NewKeySchema,
      responses: CREATED,
    },
    async (c, input) => respondWithEtag(c, await createKey(dependencies, c, c.get("tenant").id, input.body), 201),
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
    async (c, input) => respondWithEtag(c, await findKeyWithUse(dependencies, c.get("tenant").id, input.params.key)),
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
      isConditional: true,
      responses: CHANGED,
    },
    async (c, input) =>
      respondWithEtag(c, await changeKey(dependencies, c, c.get("tenant").id, input.params.key, input.body)),
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
      await revokeKeyNow(dependencies, c, c.get("tenant").id, input.params.key);
      return respondWithJson(c, { ok: true });
    },
  );
}
