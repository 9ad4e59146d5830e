// Routes of tools: deploy, list, show, delete and try them.

import { createHash } from "node:crypto";
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { toJson } from "../../../host/index.ts";
import { TOOL_NAME_PATTERN } from "../../../sandbox/contract/tool-name.ts";
import { toJsonParts } from "../../calls/outcome.ts";
import { appendAudit } from "../../records/audit/audit.ts";
import { countOpenRuns } from "../../records/calls/runs.ts";
import { touchTenant } from "../../records/tenants/tenants.ts";
import { deleteTool, findLatest, listToolNames } from "../../records/tools/tool-versions.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import { type DeployedVersion, deploy } from "../../tools/deployment.ts";
import { type Deployment, DeploymentSchema } from "../../tools/deployment-request.ts";
import { DraftSchema, runDraft } from "../../tools/draft.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { nextCursor, toPage } from "../pages.ts";
import { notFound, RequestError } from "../request-error.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { OkSchema, pageOf, pageQueryOf } from "../schemas/common.ts";
import { DeployedSchema, ToolSummarySchema, VersionSummarySchema } from "../schemas/tools.ts";
import { showRelease } from "./releases.ts";
import { TenantParamsSchema } from "./tenants.ts";
import { showVersion, ToolParamsSchema } from "./versions.ts";

const showDeployed = ({ version, isKnown, isNewlyApproved, requests, release, warnings }: DeployedVersion): object => ({
  version: showVersion(version),
  isKnown,
  isNewlyApproved,
  requests,
  warnings,
  release: release === undefined ? null : showRelease(release),
});

/** @throws {RequestError} FORBIDDEN */
function checkMayDeploy(c: Context<AppEnv>, { approve, alias }: Deployment): void {
  const { scopes, tenantId } = c.get("principal");
  // A key of the platform may repair what the tenant was suspended for.
  if (tenantId !== null && c.get("tenant").state !== "active")
    throw new RequestError("FORBIDDEN", "The tenant is suspended. Only a key of the platform can deploy its tools");
  if (approve && !scopes.has("tools:approve"))
    throw new RequestError("FORBIDDEN", "approve: This key does not have the scope tools:approve");
  if (alias !== null && !scopes.has("releases:write")) {
    throw new RequestError(
      "FORBIDDEN",
      "alias: This key does not have the scope releases:write. Pass alias: null to release nothing",
    );
  }
}

export function addToolRoutes(app: App, dependencies: ServerDependencies): void {
  const { database, authenticator } = dependencies;
  const { db } = database;

  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/tools",
    {
      summary: "Deploys a tool: builds it, stores it as a new version, and releases it",
      description:
        "The tool has the name that its code exports, or else `name`. A version that requests more than the live one waits for approval and is not released. While the tenant is suspended, only keys of the platform can deploy.",
      params: TenantParamsSchema,
      body: DeploymentSchema,
      responses: {
        201: json(DeployedSchema, "The new version"),
        200: json(DeployedSchema, "The version that has this content already"),
      },
    },
    async (c, { body: upload }) => {
      checkMayDeploy(c, upload);
      const { keyId, scopes } = c.get("principal");
      const { glovebox, installer, limits } = dependencies;
      const deployed = await deploy({ glovebox, installer, db, kind: database.kind, limits }, c.get("tenant"), upload, {
        actor: c.get("actor"),
        keyId,
        mayApprove: scopes.has("tools:approve"),
      });
      authenticator.clear();
      return respondWithJson(c, showDeployed(deployed), deployed.isKnown ? 200 : 201);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/tools",
    {
      summary: "Lists the tools of a tenant by name",
      params: TenantParamsSchema,
      query: pageQueryOf(TOOL_NAME_PATTERN),
      responses: { 200: json(pageOf(ToolSummarySchema), "A page of tools") },
    },
    async (c, input) => {
      const { limit, cursor } = input.query;
      const tools = await listToolNames(db, c.get("tenant").id, { after: cursor, limit: limit + 1 });
      const page = toPage(tools, limit);
      return respondWithJson(c, { items: page.rows, next: nextCursor(page, ({ name }) => name) });
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/tools/{tool}",
    {
      summary: "Returns the latest version of a tool",
      params: ToolParamsSchema,
      responses: { 200: json(VersionSummarySchema, "The latest version") },
    },
    async (c, input) => {
      const latest = await findLatest(db, { tenantId: c.get("tenant").id, toolName: input.params.tool });
      if (latest === undefined) throw notFound("tool", input.params.tool);
      return respondWithJson(c, showVersion(latest));
    },
  );
  addRoute(
    app,
    dependencies,
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
        if (versions === 0) throw notFound("tool", toolName);
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
      return respondWithJson(c, { ok: true });
    },
  );
  addRoute(
    app,
    dependencies,
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
      const { glovebox, calls, limits, slots, callerLimits } = dependencies;
      const result = await runDraft({ glovebox, db, calls, limits, slots, callerLimits }, tenant, body, {
        keyId: c.get("principal").keyId,
        mayApprove: scopes.has("tools:approve"),
        mayApproveCalls: scopes.has("calls:approve"),
        signal: c.req.raw.signal,
      });
      // A draft can have effects, and has no record of a call.
      await changeExclusively(database, (transaction) =>
        appendAudit(transaction, {
          actor: c.get("actor"),
          tenantId: tenant.id,
          action: "draft.ran",
          target: body.tool ?? "",
          details: {
            sha256: createHash("sha256").update(body.source).digest("hex"),
            callId: result.callId,
            outcome: result.success ? "ok" : result.error.code,
          },
        }),
      );
      const content = toJsonParts(result);
      const shown = result.success ? { ...result, output: toJson(result.output), content } : result;
      return respondWithJson(c, shown);
    },
  );
}
