import { createHash } from "node:crypto";
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { toJson } from "../../../host/index.ts";
import { toJsonParts } from "../../calls/outcome.ts";
import { appendAudit } from "../../records/audit.ts";
import {
  findPrevious,
  findRelease,
  listReleases,
  type ReleasedVersions,
  type ReleaseRecord,
  type RollbackPolicy,
  storeRelease,
} from "../../records/releases.ts";
import { countOpenRuns } from "../../records/runs.ts";
import { touchTenant } from "../../records/tenants.ts";
import {
  decideVersion,
  deleteTool,
  findVersion,
  listToolNames,
  listVersions,
  readVersionFile,
  type ToolVersionRecord,
} from "../../records/tool-versions.ts";
import { emitEvents } from "../../records/webhooks.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import { type DeployedVersion, DeploymentSchema, deploy } from "../../tools/deployment.ts";
import { DraftSchema, runDraft } from "../../tools/draft.ts";
import { ownLimits } from "../../tools/requested-access.ts";
import { originalsOf, parseUploadedSourceMap } from "../../tools/uploaded-source-map.ts";
import type { App, AppEnv, ServerParts } from "../context.ts";
import { RequestError } from "../problem.ts";
import { addRoute, json } from "../route.ts";
import {
  AliasSchema,
  DeployedSchema,
  OkSchema,
  PageQuerySchema,
  pageOf,
  ReleaseSchema,
  SetReleaseSchema,
  ToolNameSchema,
  ToolSummarySchema,
  VersionSchema,
  VersionSummarySchema,
} from "../schemas.ts";
import { TenantParamsSchema } from "./tenants.ts";

const ToolParamsSchema = TenantParamsSchema.extend({ tool: ToolNameSchema });
const VersionParamsSchema = ToolParamsSchema.extend({ version: VersionSchema });
const AliasParamsSchema = ToolParamsSchema.extend({ alias: AliasSchema });

const showVersion = (one: ToolVersionRecord): object => ({
  ...{ tool: one.toolName, version: one.version, contentHash: one.contentHash, state: one.state },
  ...{ language: one.language, definition: one.definition, grant: one.settings.grant, limits: ownLimits(one) },
  ...{ isolateLifetime: one.settings.isolateLifetime, createdBy: one.createdBy, createdAt: one.createdAt },
  ...{ decidedBy: one.decidedBy, decidedAt: one.decidedAt },
});
const showRelease = ({
  toolName,
  alias,
  versions,
  rollback,
  revision,
  changedBy,
  updatedAt,
}: ReleaseRecord): object => ({
  ...{ tool: toolName, alias, versions, rollback, revision, changedBy, updatedAt },
});
const showDeployed = ({ version, isKnown, requests, release, warnings }: DeployedVersion): object => ({
  ...{ version: showVersion(version), isKnown, requests, warnings },
  release: release === undefined ? null : showRelease(release),
});

type StoredSource =
  | { readonly source: string; readonly sourceMap?: string }
  | { readonly files: { readonly [path: string]: string }; readonly entry?: string };
function toFiles(stored: StoredSource) {
  if (!("source" in stored)) return { files: stored.files, entry: stored.entry ?? "" };
  const { source, sourceMap } = stored;
  const originals = sourceMap === undefined ? {} : { originals: originalsOf(parseUploadedSourceMap(sourceMap)) };
  return { files: { "tool.ts": source }, entry: "tool.ts", ...originals };
}
const noTool = (): RequestError => new RequestError("NOT_FOUND", "There is no such tool");

export function addToolRoutes(app: App, parts: ServerParts): void {
  const { database, authenticator } = parts;
  const { db } = database;

  const setRelease = async (
    c: Context<AppEnv>,
    { toolName, alias }: { readonly toolName: string; readonly alias: string },
    reason: "set" | "rollback",
    choose: (transaction: typeof db) => Promise<ReleasedVersions>,
    chosen?: RollbackPolicy | null,
  ): Promise<ReleaseRecord> => {
    const tenantId = c.get("tenant").id;
    const release = await changeExclusively(database, async (transaction) => {
      const versions = await choose(transaction);
      for (const { version } of versions) {
        const found = await findVersion(transaction, { tenantId, toolName }, version);
        if (found === undefined) throw new RequestError("NOT_FOUND", `There is no version ${version} of this tool`);
        if (found.state !== "ready")
          throw new RequestError("CONFLICT", `Version ${version} is not approved (${found.state})`);
      }
      const changedBy = c.get("principal").keyId;
      const key = { tenantId, toolName, alias };
      const before = await findRelease(transaction, key);
      // What the release says about failures is kept unless the request changes it.
      const rollback = (chosen === undefined ? before?.rollback : chosen) ?? null;
      const stored = await storeRelease(transaction, key, { versions, reason, changedBy, rollback });
      const isSame = stored.revision === before?.revision;
      if (isSame && stored.updatedAt === before.updatedAt && stored.rollback === before.rollback) return stored;
      const type = reason === "set" ? "release.changed" : "release.rolled_back";
      if (!isSame) await emitEvents(transaction, [{ tenantId, type, data: { tool: toolName, alias, versions } }]);
      await touchTenant(transaction, tenantId);
      const action = reason === "set" ? "release.set" : "release.rolled_back";
      await appendAudit(transaction, {
        actor: c.get("actor"),
        tenantId,
        action,
        target: `${toolName}:${alias}`,
        details: { versions, rollback },
      });
      return stored;
    });
    authenticator.clear();
    return release;
  };
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
      if (found === undefined) throw new RequestError("NOT_FOUND", "There is no such version");
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
    parts,
    "POST /v1/tenants/{tenant}/tools",
    {
      summary: "Deploys a tool: builds it, stores it as a new version, and releases it",
      description:
        "The tool has the name that its code exports, or else `name`. A version that requests more than the live one waits for approval and is not released.",
      params: TenantParamsSchema,
      body: DeploymentSchema,
      responses: {
        201: json(DeployedSchema, "The new version"),
        200: json(DeployedSchema, "The version that has this content already"),
      },
    },
    async (c, input) => {
      const upload = input.body;
      const { keyId, scopes } = c.get("principal");
      const mayApprove = scopes.has("tools:approve");
      if (upload.approve && !mayApprove)
        throw new RequestError("FORBIDDEN", "approve: This key does not have the scope tools:approve");
      if (upload.alias !== null && !scopes.has("releases:write")) {
        throw new RequestError(
          "FORBIDDEN",
          "alias: This key does not have the scope releases:write. Pass alias: null to release nothing",
        );
      }
      const deployed = await deploy(
        { box: parts.box, installer: parts.installer, db, kind: database.kind, limits: parts.limits },
        c.get("tenant").id,
        upload,
        {
          actor: c.get("actor"),
          keyId,
          mayApprove,
        },
      );
      authenticator.clear();
      return c.json(showDeployed(deployed) as never, deployed.isKnown ? 200 : 201);
    },
  );
  addRoute(
    app,
    parts,
    "GET /v1/tenants/{tenant}/tools",
    {
      summary: "Lists the tools of a tenant by name",
      params: TenantParamsSchema,
      query: PageQuerySchema,
      responses: { 200: json(pageOf(ToolSummarySchema), "A page of tools") },
    },
    async (c, input) => {
      const { limit, cursor } = input.query;
      const tools = await listToolNames(db, c.get("tenant").id, { after: cursor, limit: limit + 1 });
      const items = tools.slice(0, limit);
      return c.json({ items, next: tools.length > limit ? (items.at(-1)?.name ?? null) : null }, 200);
    },
  );
  addRoute(
    app,
    parts,
    "GET /v1/tenants/{tenant}/tools/{tool}",
    {
      summary: "Returns the latest version of a tool",
      params: ToolParamsSchema,
      responses: { 200: json(VersionSummarySchema, "The latest version") },
    },
    async (c, input) => {
      const [latest] = await listVersions(
        db,
        { tenantId: c.get("tenant").id, toolName: input.params.tool },
        { limit: 1 },
      );
      if (latest === undefined) throw noTool();
      return c.json(showVersion(latest), 200);
    },
  );
  addRoute(
    app,
    parts,
    "DELETE /v1/tenants/{tenant}/tools/{tool}",
    {
      summary: "Deletes a tool with all its versions and releases",
      params: ToolParamsSchema,
      responses: { 200: json(OkSchema, "Deleted"), 409: { description: "Runs of the tool have not ended" } },
    },
    async (c, input) => {
      const { tool: toolName } = input.params;
      const tenantId = c.get("tenant").id;
      await changeExclusively(database, async (transaction) => {
        const open = await countOpenRuns(transaction, tenantId, toolName);
        if (open > 0)
          throw new RequestError(
            "CONFLICT",
            `The tool has ${open} runs that have not ended and need its versions. Cancel them first`,
          );
        const versions = await deleteTool(transaction, { tenantId, toolName });
        if (versions === 0) throw noTool();
        await touchTenant(transaction, tenantId);
        await appendAudit(transaction, {
          actor: c.get("actor"),
          tenantId,
          action: "tool.deleted",
          target: toolName,
          details: { versions },
        });
      });
      authenticator.clear();
      return c.json({ ok: true } as const, 200);
    },
  );
  addRoute(
    app,
    parts,
    "GET /v1/tenants/{tenant}/tools/{tool}/versions/{version}/source",
    {
      summary: "Returns the uploaded source of a version",
      params: VersionParamsSchema,
      responses: {
        200: json(
          z.strictObject({
            files: z.record(z.string(), z.string()),
            entry: z.string(),
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
      if (text === undefined) throw new RequestError("NOT_FOUND", "There is no such version");
      return c.json(toFiles(JSON.parse(text) as StoredSource), 200);
    },
  );
  addRoute(
    app,
    parts,
    "POST /v1/tenants/{tenant}/drafts/calls",
    {
      summary: "Runs code once without deploying it",
      description:
        "Returns the result with its logs and timeline. The code is not stored; the audit log has its hash. The calls that it makes have records below its `callId`.",
      params: TenantParamsSchema,
      body: DraftSchema,
      responses: { 200: json(z.looseObject({ success: z.boolean() }), "The result, also of a draft that failed") },
    },
    async (c, { body }) => {
      const { scopes } = c.get("principal");
      const tenant = c.get("tenant");
      if (tenant.state !== "active") throw new RequestError("FORBIDDEN", "The tenant is suspended");
      const { box, calls, limits } = parts;
      const result = await runDraft({ box, db, calls, limits }, tenant, body, {
        keyId: c.get("principal").keyId,
        ...{ mayApprove: scopes.has("tools:approve"), mayApproveCalls: scopes.has("calls:approve") },
        signal: c.req.raw.signal,
      });
      // A draft can have effects, and has no record of a call.
      await changeExclusively(database, (transaction) =>
        appendAudit(transaction, {
          ...{ actor: c.get("actor"), tenantId: tenant.id, action: "draft.ran", target: body.tool ?? "" },
          details: {
            sha256: createHash("sha256").update(body.source).digest("hex"),
            callId: result.callId,
            outcome: result.success ? "ok" : result.error.code,
          },
        }),
      );
      const content = toJsonParts(result);
      const shown = result.success ? { ...result, output: toJson(result.output), content } : result;
      return c.json(shown as never, 200);
    },
  );
  addRoute(
    app,
    parts,
    "GET /v1/tenants/{tenant}/tools/{tool}/versions",
    {
      summary: "Lists the versions of a tool, the newest first",
      params: ToolParamsSchema,
      query: PageQuerySchema,
      responses: { 200: json(pageOf(VersionSummarySchema), "A page of versions") },
    },
    async (c, input) => {
      const { limit, cursor } = input.query;
      const key = { tenantId: c.get("tenant").id, toolName: input.params.tool };
      const before = cursor === undefined ? undefined : Number(cursor);
      if (before !== undefined && !Number.isInteger(before))
        throw new RequestError("INVALID", "cursor: Expected a cursor of this list");
      const versions = await listVersions(db, key, { before, limit: limit + 1 });
      if (versions.length === 0 && before === undefined) throw noTool();
      const items = versions.slice(0, limit);
      return c.json(
        {
          items: items.map(showVersion),
          next: versions.length > limit ? String(items.at(-1)?.version) : null,
        } as never,
        200,
      );
    },
  );
  addRoute(
    app,
    parts,
    "GET /v1/tenants/{tenant}/tools/{tool}/versions/{version}",
    {
      summary: "Returns a version of a tool",
      params: VersionParamsSchema,
      responses: { 200: json(VersionSummarySchema, "The version") },
    },
    async (c, input) => {
      const { tool: toolName, version } = input.params;
      const found = await findVersion(db, { tenantId: c.get("tenant").id, toolName }, version);
      if (found === undefined) throw new RequestError("NOT_FOUND", "There is no such version");
      return c.json(showVersion(found), 200);
    },
  );
  addRoute(
    app,
    parts,
    "POST /v1/tenants/{tenant}/tools/{tool}/versions/{version}/approve",
    {
      summary: "Approves what a version requests. Release it afterwards",
      params: VersionParamsSchema,
      responses: { 200: json(VersionSummarySchema, "The version") },
    },
    async (c, input) => {
      const { tool: toolName, version } = input.params;
      return c.json(showVersion(await decide(c, { toolName, version }, "ready")), 200);
    },
  );
  addRoute(
    app,
    parts,
    "POST /v1/tenants/{tenant}/tools/{tool}/versions/{version}/deny",
    {
      summary: "Denies what a version requests. It can never be released",
      params: VersionParamsSchema,
      responses: { 200: json(VersionSummarySchema, "The version") },
    },
    async (c, input) => {
      const { tool: toolName, version } = input.params;
      return c.json(showVersion(await decide(c, { toolName, version }, "denied")), 200);
    },
  );
  addRoute(
    app,
    parts,
    "GET /v1/tenants/{tenant}/tools/{tool}/releases",
    {
      summary: "Lists the releases of a tool",
      params: ToolParamsSchema,
      responses: { 200: json(pageOf(ReleaseSchema), "The releases") },
    },
    async (c, input) => {
      const { tool: toolName } = input.params;
      const releases = await listReleases(db, { tenantId: c.get("tenant").id, toolName });
      return c.json({ items: releases.map(showRelease), next: null }, 200);
    },
  );
  addRoute(
    app,
    parts,
    "PUT /v1/tenants/{tenant}/tools/{tool}/releases/{alias}",
    {
      summary: "Sets which versions an alias runs, and their shares",
      description:
        "Calls without an alias run `live`. Calls that run stay on their version. Setting what the alias runs already is no change that a rollback undoes.",
      params: AliasParamsSchema,
      body: SetReleaseSchema,
      responses: { 200: json(ReleaseSchema, "The release") },
    },
    async (c, input) => {
      const { tool: toolName, alias } = input.params;
      const { versions } = input.body;
      return c.json(
        showRelease(
          await setRelease(c, { toolName, alias }, "set", async () => versions, input.body.rollback),
        ) as never,
        200,
      );
    },
  );
  addRoute(
    app,
    parts,
    "POST /v1/tenants/{tenant}/tools/{tool}/releases/{alias}/rollback",
    {
      summary: "Goes back to what the alias ran before its latest change",
      params: AliasParamsSchema,
      responses: { 200: json(ReleaseSchema, "The release"), 409: { description: "The alias ran nothing else before" } },
    },
    async (c, input) => {
      const { tool: toolName, alias } = input.params;
      const release = await setRelease(c, { toolName, alias }, "rollback", async (transaction) => {
        const previous = await findPrevious(transaction, { tenantId: c.get("tenant").id, toolName, alias });
        if (previous === undefined)
          throw new RequestError("CONFLICT", "The alias ran nothing before that it could go back to");
        return previous;
      });
      return c.json(showRelease(release), 200);
    },
  );
}
