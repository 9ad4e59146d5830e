// Routes of approvals: versions that request more than the live ones, and calls that wait until a person has approved them.

import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { JsonValue } from "../../../host/index.ts";
import { toStoredInput } from "../../calls/outcome.ts";
import { type ApprovalOfCall, findWithCall, listApprovals } from "../../records/calls/approvals.ts";
import type { TenantRecord } from "../../records/tenants/tenants.ts";
import { listWaiting } from "../../records/tools/tool-versions.ts";
import { findLiveVersion } from "../../tools/deployment.ts";
import { compareRequests } from "../../tools/requested-access.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { nextCursor, toPage } from "../pages.ts";
import { notFound, RequestError } from "../request-error.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { APPROVAL_STATES, ApprovalSchema, CallApprovalSchema, DecisionSchema } from "../schemas/calls.ts";
import { IdSchema, idPageQuery, pageOf } from "../schemas/common.ts";
import { TenantParamsSchema } from "./tenants.ts";

const ApprovalParamsSchema = TenantParamsSchema.extend({ approval: IdSchema });
const ApprovalQuerySchema = idPageQuery("approval").extend({
  kind: z.enum(["version", "call"]).optional().openapi({ description: "Default: both" }),
  state: z
    .enum(APPROVAL_STATES)
    .default("pending")
    .openapi({ description: "Versions are listed while they are pending" }),
});
/** Maximum number of versions that the list shows. */
const MAX_VERSIONS = 200;

function show({ approval, call }: ApprovalOfCall): object {
  const isLarge = call.input === null && (call.content & 1) !== 0;
  const isOpen = approval.state === "pending" || approval.state === "approved";
  // The input of a call that has ended is stored without its secrets.
  const text = isOpen && call.ended_at === null ? toStoredInput(call.input) : call.input;
  return {
    kind: "call",
    id: approval.id,
    tenantId: approval.tenant_id,
    state: approval.state,
    callId: approval.call_id,
    parentId: call.parent_id,
    tool: approval.tool_name,
    version: approval.tool_version,
    input: text === null ? null : (JSON.parse(text) as JsonValue),
    omitted: isLarge,
    inputSha256: approval.input_sha256,
    toolDigest: approval.tool_digest,
    because: approval.because,
    origin: approval.origin,
    requestedBy: approval.requested_by,
    sessionId: call.session_id,
    createdAt: approval.created_at,
    expiresAt: approval.expires_at,
    decidedBy: approval.decided_by,
    decidedAt: approval.decided_at,
    reason: approval.reason,
  };
}

export function addApprovalRoutes(app: App, dependencies: ServerDependencies): void {
  const { db } = dependencies.database;

  const listVersions = async ({ id: tenantId, policy }: TenantRecord): Promise<readonly object[]> => {
    const waiting = await listWaiting(db, tenantId, MAX_VERSIONS);
    return await Promise.all(
      waiting.map(async (next) => {
        const { toolName, version, createdBy, createdAt } = next;
        const live = await findLiveVersion(db, { tenantId, toolName });
        const requests = compareRequests(live, next, [dependencies.limits, policy.limits]);
        return { kind: "version", tool: toolName, version, requests, createdBy, createdAt };
      }),
    );
  };
  const decide = async (
    c: Context<AppEnv>,
    id: string,
    isApproved: boolean,
    { reason = null }: { readonly reason?: string | null | undefined },
  ): Promise<object> => {
    const decision = { isApproved, reason, actor: c.get("actor"), decidedBy: c.get("principal").keyId };
    const decided = await dependencies.calls.approvals.decide(c.get("tenant"), id, decision);
    if (decided === undefined) throw notFound("approval", id);
    return show(decided);
  };

  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/approvals",
    {
      summary: "Lists what waits for approval: versions of tools, and calls",
      description:
        "Versions come first, with what they request in addition to the live version; decide about them at their own paths. At most 200 are shown, and fewer if they are long: the next ones follow as soon as these are decided. Calls come by age, the oldest first while they are pending, otherwise the newest first; they need the scope `calls:read` too.",
      params: TenantParamsSchema,
      query: ApprovalQuerySchema,
      responses: { 200: json(pageOf(z.union([ApprovalSchema, CallApprovalSchema])), "A page of approvals") },
    },
    async (c, { query }) => {
      const { kind, state, limit, cursor } = query;
      const tenantId = c.get("tenant").id;
      const mayReadCalls = c.get("principal").scopes.has("calls:read");
      if (kind === "call" && !mayReadCalls)
        throw new RequestError("FORBIDDEN", "kind: This key does not have the scope calls:read");
      const showsVersions = kind !== "call" && state === "pending" && cursor === undefined;
      const versions = showsVersions ? await listVersions(c.get("tenant")) : [];
      const calls =
        kind !== "version" && mayReadCalls
          ? await listApprovals(db, tenantId, { state, after: cursor, limit: limit + 1 })
          : [];
      const page = toPage(calls, limit);
      const items = [...versions, ...page.rows.map(show)];
      return respondWithJson(c, { items, next: nextCursor(page, ({ approval }) => approval.id) });
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/approvals/{approval}",
    {
      summary: "Returns the approval of a call, with the call's whole input",
      params: ApprovalParamsSchema,
      responses: { 200: json(CallApprovalSchema, "The approval") },
    },
    async (c, { params }) => {
      const found = await findWithCall(db, c.get("tenant").id, params.approval);
      if (found === undefined) throw notFound("approval", params.approval);
      return respondWithJson(c, show(found));
    },
  );
  const decided = {
    200: json(CallApprovalSchema, "The approval"),
    409: { description: "It was decided before, or its time is over" },
  };
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/approvals/{approval}/approve",
    {
      summary: "Approves a call, which then runs once",
      description:
        "It runs with exactly these arguments, on exactly this version of the tool, as soon as the queue gets to it.",
      params: ApprovalParamsSchema,
      body: DecisionSchema,
      responses: decided,
    },
    async (c, { params, body }) => respondWithJson(c, await decide(c, params.approval, true, body)),
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/approvals/{approval}/deny",
    {
      summary: "Denies a call, which ends without having run",
      params: ApprovalParamsSchema,
      body: DecisionSchema,
      responses: decided,
    },
    async (c, { params, body }) => respondWithJson(c, await decide(c, params.approval, false, body)),
  );
}
