// Routes of the releases of a tool: which versions an alias runs.
import type { Context } from "hono";
import { appendAudit } from "../../records/audit/audit.ts";
import { emitEvents } from "../../records/events/webhooks.ts";
import { touchTenant } from "../../records/tenants/tenants.ts";
import {
  AliasSchema,
  deleteRelease,
  findPrevious,
  findRelease,
  listReleases,
  type ReleasedVersions,
  type ReleaseRecord,
  type RollbackPolicy,
  storeRelease,
} from "../../records/tools/releases.ts";
import { findLatest, findVersion } from "../../records/tools/tool-versions.ts";
import { changeExclusively } from "../../records/write-lock.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { checkIfMatch, respondWithEtag, withEtag } from "../entity-tag.ts";
import { notFound, RequestError } from "../request-error.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { OkSchema, pageOf } from "../schemas/common.ts";
import { ReleaseSchema, SetReleaseSchema } from "../schemas/tools.ts";
import { ToolParamsSchema } from "./versions.ts";

const AliasParamsSchema = ToolParamsSchema.extend({ alias: AliasSchema });

export const showRelease = ({ toolName, alias, versions, rollback, revision, changedBy, updatedAt }: ReleaseRecord) =>
  withEtag({ tool: toolName, alias, versions, rollback, revision, changedBy, updatedAt }, [
    "versions",
    "rollback",
    "revision",
  ]);

export function addReleaseRoutes(app: App, dependencies: ServerDependencies): void {
  const { database, authenticator } = dependencies;
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
      const key = { tenantId, toolName, alias };
      const before = await findRelease(transaction, key);
      checkIfMatch(c, before && showRelease(before).etag);
      const versions = await choose(transaction);
      for (const { version } of versions) {
        const found = await findVersion(transaction, { tenantId, toolName }, version);
        if (found === undefined && reason === "rollback")
          throw new RequestError("CONFLICT", `The alias ran version ${version} before, which has been deleted`);
        if (found === undefined) throw new RequestError("NOT_FOUND", `There is no version ${version} of this tool`);
        if (found.state !== "ready")
          throw new RequestError("CONFLICT", `Version ${version} is not approved (${found.state})`);
      }
      const changedBy = c.get("principal").keyId;
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

  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/tools/{tool}/releases",
    {
      summary: "Lists the releases of a tool",
      params: ToolParamsSchema,
      responses: { 200: json(pageOf(ReleaseSchema), "The releases") },
    },
    async (c, input) => {
      const { tool: toolName } = input.params;
      const releases = await listReleases(db, { tenantId: c.get("tenant").id, toolName });
      return respondWithJson(c, { items: releases.map(showRelease), next: null });
    },
  );
  addRoute(
    app,
    dependencies,
    "PUT /v1/tenants/{tenant}/tools/{tool}/releases/{alias}",
    {
      summary: "Sets which versions an alias runs, and their shares",
      description:
        "Calls without an alias run `live`. Calls that run stay on their version. Setting what the alias runs already changes nothing, so a rollback does not undo it.",
      params: AliasParamsSchema,
      body: SetReleaseSchema,
      isConditional: true,
      responses: { 200: json(ReleaseSchema, "The release") },
    },
    async (c, input) => {
      const { tool: toolName, alias } = input.params;
      const { versions } = input.body;
      const release = await setRelease(c, { toolName, alias }, "set", async () => versions, input.body.rollback);
      return respondWithEtag(c, showRelease(release));
    },
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/tools/{tool}/releases/{alias}/rollback",
    {
      summary: "Goes back to what the alias ran before its latest change",
      params: AliasParamsSchema,
      isConditional: true,
      responses: { 200: json(ReleaseSchema, "The release"), 409: { description: "The alias ran nothing else before" } },
    },
    async (c, input) => {
      const { tool: toolName, alias } = input.params;
      const release = await setRelease(c, { toolName, alias }, "rollback", async (transaction) => {
        const tenantId = c.get("tenant").id;
        const previous = await findPrevious(transaction, { tenantId, toolName, alias });
        if (previous === undefined && (await findLatest(transaction, { tenantId, toolName })) === undefined)
          throw notFound("tool", toolName);
        if (previous === undefined)
          throw new RequestError("CONFLICT", "The alias ran nothing before that it could go back to");
        return previous;
      });
      return respondWithEtag(c, showRelease(release));
    },
  );
  addRoute(
    app,
    dependencies,
    "DELETE /v1/tenants/{tenant}/tools/{tool}/releases/{alias}",
    {
      summary: "Deletes an alias with its history",
      description: "Calls that name it fail from now on; without the alias `live`, so do all calls that name none.",
      params: AliasParamsSchema,
      responses: { 200: json(OkSchema, "Deleted") },
    },
    async (c, { params: { tool: toolName, alias } }) => {
      const tenantId = c.get("tenant").id;
      await changeExclusively(database, async (transaction) => {
        const release = await deleteRelease(transaction, { tenantId, toolName, alias });
        if (release === undefined) throw new RequestError("NOT_FOUND", "There is no such alias");
        const { versions } = release;
        await emitEvents(transaction, [
          { tenantId, type: "release.changed", data: { tool: toolName, alias, versions: [] } },
        ]);
        await touchTenant(transaction, tenantId);
        await appendAudit(transaction, {
          actor: c.get("actor"),
          tenantId,
          action: "release.deleted",
          target: `${toolName}:${alias}`,
          details: { versions },
        });
      });
      authenticator.clear();
      return respondWithJson(c, { ok: true });
    },
  );
}
