// Runs the code of a tool once, without storing it: what an author tries before a deployment.
import { randomUUID } from "node:crypto";
import * as z from "zod";
import {
  type Glovebox,
  matchesName,
  type PartialLimits,
  type ToolDefinition,
  ToolError,
  type ToolResult,
} from "../../host/index.ts";
import { isDestructive } from "../approvals/approval-rule.ts";
import type { CallService } from "../calls/call-service.ts";
import type { ClusterSlot, ClusterSlots } from "../calls/cluster-slots.ts";
import type { Db } from "../database/open-database.ts";
import { createId } from "../ids.ts";
import type { CallerLimits } from "../quotas/caller-limits.ts";
import type { TenantRecord } from "../records/tenants/tenants.ts";
import { findLiveVersion } from "./deployment.ts";
import { SourceModeSchema } from "./deployment-request.ts";
import { compareRequests } from "./requested-access.ts";

const MAX_SOURCE = 1024 * 1024;

export const DraftSchema = z.strictObject({
  source: z.string().min(1).max(MAX_SOURCE),
  mode: SourceModeSchema.optional(),
  /** Default: `javascript` for a script, else `typescript`. */
  language: z.enum(["javascript", "typescript", "python"]).optional(),
  /** The tool that the draft is of: what its live version requests needs no approval. */
  tool: z
    .string()
    .regex(/^[A-Za-z0-9_.-]{1,128}$/)
    .optional(),
  input: z.any().optional(),
  timeoutMs: z.int().min(1).max(300_000).optional(),
});
export type Draft = z.output<typeof DraftSchema>;

export interface DraftDependencies {
  readonly glovebox: Glovebox;
  readonly db: Db;
  /** Limits of every call of the server. */
  readonly limits: PartialLimits;
  readonly calls: Pick<CallService, "nestedCallsOf">;
  readonly slots: Pick<ClusterSlots, "acquire">;
  readonly callerLimits: Pick<CallerLimits, "quotasOf">;
}

export interface DraftCaller {
  /** Whether the caller may approve what a version requests. */
  readonly mayApprove: boolean;
  /** Whether the caller may approve calls, and so runs code that would wait as a tool. */
  readonly mayApproveCalls: boolean;
  readonly keyId: string;
  readonly signal: AbortSignal;
}

const needsApproval = (what: string): ToolError =>
  new ToolError(
    "APPROVAL_REQUIRED",
    `${what} needs an approval. A key with the scope calls:approve may run the draft`,
    {
      recoverable: false,
      details: { approved: false },
    },
  );

/** Denies a draft what its tool could do only after an approval. @throws {ToolError} APPROVAL_REQUIRED */
function checkApproval({ policy }: TenantRecord, tool: string | undefined, definition: ToolDefinition): void {
  const { tools, destructive } = policy.approvals;
  const isNamed = tools.some((pattern) => matchesName(pattern, tool ?? ""));
  if (isNamed || (destructive && isDestructive(definition))) throw needsApproval("The draft");
}

/**
 * Runs a draft in the name of its tenant, under the tenant's policy.
 * @throws {ToolError} BUNDLE_FAILED if it cannot be built; CAPABILITY_DENIED for a capability that the tenant cannot have, or that needs an
 *   approval which the caller may not give; APPROVAL_REQUIRED for code whose calls would wait for an approval; OVERLOADED if the
 *   tenant has no free slot
 */
export async function runDraft(
  { glovebox, db, calls, limits, slots, callerLimits }: DraftDependencies,
  tenant: TenantRecord,
  { source, mode, language = mode === "script" ? "javascript" : "typescript", tool, input = {}, timeoutMs }: Draft,
  { mayApprove, mayApproveCalls, keyId, signal }: DraftCaller,
): Promise<ToolResult> {
  const tenantId = tenant.id;
  const name = `draft_${randomUUID().replaceAll("-", "")}`;
  const given = { name, source, mode, language, overrides: { name } };
  const { definition } = await glovebox.inspectTool(given, { tenantId });
  const grant = Object.keys(definition.capabilities ?? {}).filter((capability) => capability !== "log");
  const allowed: readonly string[] = tenant.policy.capabilities;
  const denied = grant.filter((capability) => !allowed.includes(capability));
  if (denied.length > 0) {
    const message = `The draft requests ${denied.join(", ")}, which tools of this tenant cannot have (policy.capabilities)`;
    throw new ToolError("CAPABILITY_DENIED", message);
  }
  const live = tool === undefined ? undefined : await findLiveVersion(db, { tenantId, toolName: tool });
  const { added } = compareRequests(
    live,
    { definition, settings: {}, language: language === "python" ? "python" : "javascript" },
    [limits, tenant.policy.limits],
  );
  if (added.length > 0 && !mayApprove) {
    const message = `The draft requests ${added.join(", ")}, which the live version does not have. A key with the scope tools:approve may run it`;
    throw new ToolError("CAPABILITY_DENIED", message, { details: { added: [...added] } });
  }
  if (!mayApproveCalls) checkApproval(tenant, tool, definition);
  await glovebox.addTool(given, { tenantId, grant });
  const nested = calls.nestedCallsOf(tenant, keyId, ({ toolName }) => {
    if (!mayApproveCalls) throw needsApproval(`The call of "${toolName}"`);
  });
  // As of a call: those that it makes have records.
  const id = createId("call");
  let slot: ClusterSlot | undefined;
  try {
    slot = await slots.acquire(tenant, id, signal, keyId);
    return await glovebox.execute(
      { id, toolName: name, arguments: input },
      {
        tenantId,
        signal,
        timeline: true,
        logSourceLocations: true,
        onLog: (entry) => nested.log(entry),
        nestedCalls: nested.observer,
        ...(await callerLimits.quotasOf(keyId)),
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
      },
    );
  } finally {
    slot?.release();
    glovebox.removeTool(name, { tenantId });
  }
}
