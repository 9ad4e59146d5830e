// Routes of the versions of a tool: list, show, approve, deny and delete them.

import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Db } from "../../database/open-database.ts";
import { appendAudit } from "../../records/audit/audit.ts";
import { countOpenCalls } from "../../records/calls/calls.ts";
import { countOpenRuns } from "../../records/calls/runs.ts";
import { touchTenant } from "../../records/tenants/tenants.ts";
import { listReleases } from "../../records/tools/releases.ts";
import {
  decideVersion,
  deleteVersion,
  findLatest,
  findVersion,
  listVersions,
  readVersionFile,
  type ToolVersionRecord,
} from "../../records/tools/tool-versions.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import { ownLimits } from "../../tools/requested-access.ts";
import { originalsOf, parseUploadedSourceMap } from "../../tools/uploaded-source-map.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { nextCursor } from "../pages.ts";
import { notFound, RequestError } from "../request-error.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import {
  numberPageQuery,
  OkSchema,
  pageOf,
  SHORT_PAGES,
  ToolNameParamSchema,
  VersionSchema,
} from "../schemas/common.ts";
import { VersionSummarySchema } from "../schemas/tools.ts";
import { TenantParamsSchema } from "./tenants.ts";

export const ToolParamsSchema = TenantParamsSchema.extend({ tool: ToolNameParamSchema });
export const VersionParamsSchema = ToolParamsSchema.extend({ version: VersionSchema });

export const showVersion = (one: ToolVersionRecord): object => ({
  tool: one.toolName,
  version: one.version,
  contentHash: one.contentHash,
  state: one.state,
  language: one.language,
  definition: one.definition,
  grant: one.settings.grant,
  limits: ownLimits(one),
  isolateLifetime: one.settings.isolateLifetime,
  createdBy: one.createdBy,
  createdAt: one.createdAt,
  decidedBy: one.decidedBy,
  decidedAt: one.decidedAt,
});
type StoredSource =
  | { readonly source: string; readonly mode?: "script"; readonly sourceMap?: string }
  | { readonly files: { readonly [path: string]: string }; readonly entry?: string };
function toFiles(stored: StoredSource) {
  if (!("source" in stored)) return { files: stored.files, entry: stored.entry ?? "" };
  const { source, mode, sourceMap } = stored;
  const originals = sourceMap === undefined ? {} : { originals: originalsOf(parseUploadedSourceMap(sourceMap)) };
  if (mode === "script") return { files: { "tool.js": source }, entry: "tool.js", mode, ...originals };
  return { files: { "tool.ts": source }, entry: "tool.ts", ...originals };
}
const noVersion = (tool: string, version: number): RequestError => notFound("version", `${tool}@${version}`);

/** Returns why a version cannot be deleted; undefined if nothing needs it. */
async function findReasonToKeep(
  transaction: Db,
  key: { readonly tenantId: string; readonly toolName: string },
  version: number,
): Promise<string | undefined> {
  const { tenantId, toolName } = key;
  if ((await findLatest(transaction, key))?.version === version)
    return `Version ${version} is the latest. Deploy another one first, or delete the tool`;
  const release = (await listReleases(transaction, key)).find(({ versions }) =>
    versions.some((one) => one.version === version),
  );
  if (release !== undefined)
    return `The alias ${JSON.stringify(release.alias)} runs version ${version}. Release another version first`;
  const runs = await countOpenRuns(transaction, tenantId, toolName, version);
  if (runs > 0) return `${runs} runs of version ${version} have not ended. Cancel them first`;
  const calls = await countOpenCalls(transaction, tenantId, toolName, version);
  if (calls > 0) return `${calls} calls of version ${version} have not ended. Wait for them, or cancel them first`;
  return undefined;
}

export function addVersionRoutes(app: App, dependencies: ServerDependencies): void {
  const { database, authenticator } = dependencies;
  const { db } = database;

  const decide = async (
    c: Context<AppEnv>,
    { toolName, version }: { readonly toolName: string; readonly version: number },
    state: "ready" | "denied",
  ): Promise<ToolVersionRecord> => {
    const tenantId = c.get("tenant").id;
    const decidedBy = c.get("principal").keyId;
    const key = { tenantId, toolName };
    const decided = await changeExclusively(database, async (transaction) => {
      const found = await findVersion(transaction, key, version);
      if (found === undefined) throw noVersion(toolName, version);
      if (!(await decideVersion(transaction, key, version, { state, decidedBy }))) {
        throw new RequestError("CONFLICT", `Version ${version} does not wait for approval (${found.state})`);
      }
      const action = state === "ready" ? "version.approved" : "version.denied";
      await appendAudit(transaction, {
        actor: c.get("actor"),
        tenantId,
        action,
        target: `${toolName}@${version}`,
        details: {},
      });
      return (await findVersion(transaction, key, version)) as ToolVersionRecord;
    });
    authenticator.clear();
    return decided;
  };

  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/tools/{tool}/versions/{version}/source",
    {
      summary: "Returns the uploaded source of a version",
      params: VersionParamsSchema,
      responses: {
        200: json(
          z.strictObject({
            files: z.record(z.string(), z.string()),
            entry: z.string(),
            /** Set for a source that is a script in sloppy mode. */
            mode: z.literal("script").optional(),
            /** The author's files, of which logs and errors name the places, for a bundle that was uploaded with its source map. */
            originals: z.record(z.string(), z.string()).optional(),
          }),
          "The files of the version by path",
        ),
      },
    },
    async (c, { params }) => {
      const key = { tenantId: c.get("tenant").id, toolName: params.tool };
      const text = await readVersionFile(db, key, params.version, "source");
      if (text === undefined) throw noVersion(params.tool, params.version);
      return respondWithJson(c, toFiles(JSON.parse(text) as StoredSource));
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/tools/{tool}/versions",
    {
      summary: "Lists the versions of a tool, the newest first",
      description: SHORT_PAGES,
      params: ToolParamsSchema,
      query: numberPageQuery(),
      responses: { 200: json(pageOf(VersionSummarySchema), "A page of versions") },
    },
    async (c, input) => {
      const { limit, cursor } = input.query;
      const key = { tenantId: c.get("tenant").id, toolName: input.params.tool };
      const page = await listVersions(db, key, { before: cursor, limit });
      if (page.rows.length === 0 && cursor === undefined) throw notFound("tool", input.params.tool);
      return respondWithJson(c, {
        items: page.rows.map(showVersion),
        next: nextCursor(page, ({ version }) => String(version)),
      });
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/tools/{tool}/versions/{version}",
    {
      summary: "Returns a version of a tool",
      params: VersionParamsSchema,
      responses: { 200: json(VersionSummarySchema, "The version") },
    },
    async (c, input) => {
      const { tool: toolName, version } = input.params;
      const found = await findVersion(db, { tenantId: c.get("tenant").id, toolName }, version);
      if (found === undefined) throw noVersion(toolName, version);
      return respondWithJson(c, showVersion(found));
    },
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/tools/{tool}/versions/{version}/approve",
    {
      summary: "Approves what a version requests. Release it afterwards",
      description:
        "An approval releases nothing, also if the version was deployed with an alias: who may approve need not be who may release. Until an alias runs it, calls and MCP clients do not find the first version of a tool. To approve and release at once, deploy the same content again with `approve: true`.",
      params: VersionParamsSchema,
      responses: { 200: json(VersionSummarySchema, "The version") },
    },
    async (c, input) => {
      const { tool: toolName, version } = input.params;
      return respondWithJson(c, showVersion(await decide(c, { toolName, version }, "ready")));
    },
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/tools/{tool}/versions/{version}/deny",
    {
      summary: "Denies what a version requests. It can never be released",
      params: VersionParamsSchema,
      responses: { 200: json(VersionSummarySchema, "The version") },
    },
    async (c, input) => {
      const { tool: toolName, version } = input.params;
      return respondWithJson(c, showVersion(await decide(c, { toolName, version }, "denied")));
    },
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/tenants/{tenant}/tools/{tool}/versions/{version}",
    {
      summary: "Deletes a version that nothing needs any more, with its code",
      description:
        "The latest version stays, so that no number is used twice. Recordings of calls of a deleted version can be replayed on other versions.",
      params: VersionParamsSchema,
      responses: {
        200: json(OkSchema, "Deleted"),
        409: { description: "It is the latest version, an alias runs it, or calls or runs need it" },
      },
    },
    async (c, { params: { tool: toolName, version } }) => {
      const tenantId = c.get("tenant").id;
      const key = { tenantId, toolName };
      await changeExclusively(database, async (transaction) => {
        const found = await findVersion(transaction, key, version);
        if (found === undefined) throw noVersion(toolName, version);
        const reason = await findReasonToKeep(transaction, key, version);
        if (reason !== undefined) throw new RequestError("CONFLICT", reason);
        await deleteVersion(transaction, key, version);
        await touchTenant(transaction, tenantId);
        await appendAudit(transaction, {
          actor: c.get("actor"),
          tenantId,
          action: "version.deleted",
          target: `${toolName}@${version}`,
          details: { contentHash: found.contentHash },
        });
      });
      authenticator.clear();
      return respondWithJson(c, { ok: true });
    },
  );
}
