// Routes of the values that tools keep: list the tools that have some, browse, export, read, write and delete.

import { z } from "@hono/zod-openapi";
import { type KvEntry, type KvSpace, LIMITS, type PartialLimits } from "../../../host/index.ts";
import { TOOL_NAME_PATTERN } from "../../../sandbox/contract/tool-name.ts";
import type { App, ServerDependencies } from "../context.ts";
import { nextCursor, toPage } from "../pages.ts";
import { RequestError } from "../request-error.ts";
import { respondWithJson, respondWithStream } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { OkSchema, pageOf, pageQueryOf, TimeSchema } from "../schemas/common.ts";
import { changeAudited } from "./audited-change.ts";
import { checkToolExists } from "./check-tool.ts";
import { TenantParamsSchema } from "./tenants.ts";
import { ToolParamsSchema } from "./versions.ts";

/** Longest key in bytes, as tools have it. */
const MAX_KEY_BYTES = 1_024;
// Keys are stored as bytes, and tools choose them: they may have control characters.
const KeyTextSchema = z
  .string()
  .max(MAX_KEY_BYTES)
  .refine((text) => text.isWellFormed() && Buffer.byteLength(text) <= MAX_KEY_BYTES, {
    error: `Expected a well-formed text of at most ${MAX_KEY_BYTES} bytes in UTF-8`,
  });
const KeySchema = KeyTextSchema.min(1);
const KeyParamsSchema = ToolParamsSchema.extend({ key: KeySchema });
/** The key in the path of a value whose own key is in the query. */
const KEY_IN_QUERY = "-";
const KeyQuerySchema = z.strictObject({
  key: z
    .enum([".", ".."])
    .optional()
    .describe(
      `The key, if it is \`.\` or \`..\`, which no URL can have in its path. The key in the path is \`${KEY_IN_QUERY}\` then`,
    ),
});

/** Returns the key of a value. @throws {RequestError} INVALID for a path and a query with different keys */
function keyOf(params: { readonly key: string }, query: z.output<typeof KeyQuerySchema>): string {
  if (query.key !== undefined && params.key !== KEY_IN_QUERY)
    throw new RequestError("INVALID", `key: Expected the key ${KEY_IN_QUERY} in the path, or none in the query`);
  return query.key ?? params.key;
}

const ListQuerySchema = z.strictObject({
  prefix: KeyTextSchema.default(""),
  cursor: KeySchema.optional(),
  limit: z.coerce.number().int().min(1).max(200).default(50),
});
/** Maximum number of bytes of values in one page. */
const PAGE_BYTES = 4 * 1024 * 1024;
/** Values that an export reads at one time. */
const EXPORT_PAGE = 200;

const SpaceSchema = z.strictObject({ tool: z.string(), keys: z.int(), bytes: z.int() }).openapi("KvSpace");
export const KvEntrySchema = z
  .strictObject({
    key: z.string(),
    version: z.string(),
    expiresAt: TimeSchema.nullable(),
    value: z.any().describe("The value, if it is JSON"),
    base64: z.string().nullable().describe("The value, if it is bytes"),
  })
  .openapi("KvEntry");
const JsonValueSchema = z
  .any()
  .refine((value) => value !== undefined, { error: "Expected a value" })
  .describe("Any JSON value");
const NewValueSchema = z
  .strictObject({
    value: JsonValueSchema,
    expiresAt: TimeSchema.optional(),
    ifVersion: z.string().max(256).nullable().optional(),
  })
  .openapi("NewKvValue");

const show = ({ key, version, expiresAt, kind, data }: KvEntry) => ({
  key,
  version,
  expiresAt: expiresAt ?? null,
  value: kind === "json" ? JSON.parse(Buffer.from(data).toString("utf8")) : null,
  base64: kind === "bytes" ? Buffer.from(data).toString("base64") : null,
});
/** Returns the entry of the audit log for a change of a value. It does not contain the value. */
const eventOf = (action: string, tool: string, key: string) => ({ action, target: `${tool}:${key}`, details: {} });

/**
 * Returns what a request writes, with the lowest of several limits.
 * @throws {RequestError} INVALID for a value that is too large
 */
function toKvWrite(
  { value, expiresAt, ifVersion }: z.output<typeof NewValueSchema>,
  limits: readonly (PartialLimits | undefined)[],
) {
  const limitOf = (name: "kvKeys" | "kvBytes" | "kvValueBytes"): number => {
    const configured = limits.map((one) => one?.[name]).filter((limit) => limit !== undefined);
    return configured.length === 0 ? LIMITS[name].default : Math.min(...configured);
  };
  const data = Buffer.from(JSON.stringify(value));
  if (data.byteLength > limitOf("kvValueBytes"))
    throw new RequestError("INVALID", `value: Expected at most ${limitOf("kvValueBytes")} bytes (limits.kvValueBytes)`);
  return {
    kind: "json",
    data,
    quota: { keys: limitOf("kvKeys"), bytes: limitOf("kvBytes") },
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(ifVersion === undefined ? {} : { ifVersion }),
  } as const;
}

const none = (): RequestError => new RequestError("NOT_FOUND", "There is no such key");

export function addKvRoutes(app: App, dependencies: ServerDependencies): void {
  const { kv } = dependencies;
  const spaceOf = (tenantId: string, tool: string) => ({ tenantId, tool: `tenant/${tool}` });

  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/kv",
    {
      summary: "Lists the tools of a tenant that keep values by name",
      params: TenantParamsSchema,
      query: pageQueryOf(TOOL_NAME_PATTERN),
      responses: { 200: json(pageOf(SpaceSchema), "A page of tools") },
    },
    async (c, { query: { limit, cursor } }) => {
      const tenantId = c.get("tenant").id;
      const after = cursor === undefined ? undefined : spaceOf(tenantId, cursor).tool;
      const spaces = await kv.spaces(tenantId, { after, limit: limit + 1 });
      const page = toPage(
        spaces.map((space) => ({ ...space, tool: space.tool.replace(/^\w+\//, "") })),
        limit,
      );
      return respondWithJson(c, { items: page.rows, next: nextCursor(page, ({ tool }) => tool) });
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/kv/{tool}",
    {
      summary: "Lists the values of a tool by key",
      params: ToolParamsSchema,
      query: ListQuerySchema,
      responses: { 200: json(pageOf(KvEntrySchema), "A page of values") },
    },
    async (c, { params, query }) => {
      const { prefix, cursor, limit } = query;
      const page = await kv.list(spaceOf(c.get("tenant").id, params.tool), {
        prefix,
        limit,
        bytes: PAGE_BYTES,
        ...(cursor === undefined ? {} : { after: cursor }),
      });
      const next = page.more ? (page.entries.at(-1)?.key ?? null) : null;
      return respondWithJson(c, { items: page.entries.map(show), next });
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/kv/{tool}/export",
    {
      summary: "Exports all values of a tool as lines of JSON",
      description:
        "Each line has the type `value` and the fields of a value. The last one has the type `end` and the number of `keys`; an export without it is incomplete. Values that change during the export may have either state.",
      streams: () => true,
      params: ToolParamsSchema,
      responses: { 200: { content: { "application/x-ndjson": { schema: z.string() } }, description: "The export" } },
    },
    (c, { params }) => {
      const values = exportSpace(kv, spaceOf(c.get("tenant").id, params.tool));
      return respondWithStream(c, values, "application/x-ndjson");
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/kv/{tool}/values/{key}",
    {
      summary: "Returns a value",
      params: KeyParamsSchema,
      query: KeyQuerySchema,
      responses: { 200: json(KvEntrySchema, "The value") },
    },
    async (c, { params, query }) => {
      const entry = await kv.get(spaceOf(c.get("tenant").id, params.tool), keyOf(params, query));
      if (entry === undefined) throw none();
      return respondWithJson(c, show(entry));
    },
  );
  addRoute(
    app,
    dependencies,
    "PUT /v1/tenants/{tenant}/kv/{tool}/values/{key}",
    {
      summary: "Sets a value",
      params: KeyParamsSchema,
      query: KeyQuerySchema,
      body: NewValueSchema,
      responses: { 200: json(KvEntrySchema, "The value"), 409: { description: "The value has another version" } },
    },
    async (c, { params, query, body }) => {
      const { id, policy } = c.get("tenant");
      const key = keyOf(params, query);
      const write = toKvWrite(body, [policy.limits, dependencies.limits]);
      const space = spaceOf(id, params.tool);
      // A tool that was deleted keeps its values. Any other name would have limits of its own.
      if ((await kv.usage(space)).keys === 0) await checkToolExists(dependencies.database.db, id, params.tool);
      const outcome = await changeAudited(
        c,
        dependencies,
        eventOf("kv.set", params.tool, key),
        (transaction) => kv.setWithin(transaction, space, key, write),
        ({ status }) => status === "stored",
      );
      if (outcome.status === "conflict")
        throw new RequestError("CONFLICT", "The value has another version", { details: { version: outcome.version } });
      if (outcome.status === "full")
        throw new RequestError(
          "INVALID",
          `The tool's values would exceed limits.kv${outcome.exceeded === "keys" ? "Keys" : "Bytes"}`,
        );
      return respondWithJson(c, {
        key,
        version: outcome.version,
        expiresAt: body.expiresAt ?? null,
        value: body.value,
        base64: null,
      });
    },
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/tenants/{tenant}/kv/{tool}/values/{key}",
    {
      summary: "Deletes a value",
      params: KeyParamsSchema,
      query: KeyQuerySchema,
      responses: { 200: json(OkSchema, "Deleted") },
    },
    async (c, { params, query }) => {
      const space = spaceOf(c.get("tenant").id, params.tool);
      const key = keyOf(params, query);
      const { status } = await changeAudited(
        c,
        dependencies,
        eventOf("kv.deleted", params.tool, key),
        (transaction) => kv.deleteWithin(transaction, space, key),
        (outcome) => outcome.status === "deleted",
      );
      if (status !== "deleted") throw none();
      return respondWithJson(c, { ok: true });
    },
  );
}

/** Yields a line for each value, by key, and at last `{ "type": "end", "keys": N }`. */
async function* exportSpace(kv: ServerDependencies["kv"], space: KvSpace): AsyncGenerator<string, void> {
  let keys = 0;
  let after: string | undefined;
  for (;;) {
    const options = { prefix: "", limit: EXPORT_PAGE, bytes: PAGE_BYTES };
    const { entries, more } = await kv.list(space, after === undefined ? options : { ...options, after });
    for (const entry of entries) yield `${JSON.stringify({ type: "value", ...show(entry) })}\n`;
    keys += entries.length;
    after = entries.at(-1)?.key;
    if (!more || after === undefined) break;
  }
  yield `${JSON.stringify({ type: "end", keys })}\n`;
}
