// Runs the code of a tool once, without storing it: what an author tries before a deployment.
import { randomUUID } from "node:crypto";
import * as z from "zod";
import { type Glovebox, ToolError, type ToolResult } from "../../host/index.ts";
import type { Db } from "../database/open-database.ts";
import type { Tenant } from "../records/tenants.ts";
import { findLiveDefinition } from "./deployment.ts";
import { compareRequests } from "./requests.ts";

const MAX_SOURCE = 1024 * 1024;

export const DraftSchema = z.strictObject({
  source: z.string().min(1).max(MAX_SOURCE),
  language: z.enum(["javascript", "typescript", "python"]).default("typescript"),
  /** The tool that the draft is of: what its live version requests needs no approval. */
  tool: z
    .string()
    .regex(/^[A-Za-z0-9_.-]{1,128}$/)
    .optional(),
  input: z.any().optional(),
  timeoutMs: z.int().min(1).max(300_000).optional(),
});
export type Draft = z.output<typeof DraftSchema>;

/**
 * Runs a draft in the name of its tenant, under the tenant's policy.
 * @throws {ToolError} BUNDLE_FAILED if it cannot be built; CAPABILITY_DENIED for a capability that the tenant cannot have, or that needs an
 *   approval which the caller may not give
 */
export async function runDraft(
  { box, db }: { readonly box: Glovebox; readonly db: Db },
  tenant: Tenant,
  { source, language, tool, input = {}, timeoutMs }: Draft,
  { mayApprove, signal }: { readonly mayApprove: boolean; readonly signal: AbortSignal },
): Promise<ToolResult> {
  const tenantId = tenant.id;
  const name = `draft_${randomUUID().replaceAll("-", "")}`;
  const given = { name, source, language, overrides: { name } };
  const { definition } = await box.inspectTool(given, { tenantId });
  const grant = Object.keys(definition.capabilities ?? {}).filter((capability) => capability !== "log");
  const allowed: readonly string[] = tenant.policy.capabilities;
  const denied = grant.filter((capability) => !allowed.includes(capability));
  if (denied.length > 0) {
    const message = `The draft requests ${denied.join(", ")}, which tools of this tenant cannot have (policy.capabilities)`;
    throw new ToolError("CAPABILITY_DENIED", message);
  }
  const live = tool === undefined ? undefined : await findLiveDefinition(db, { tenantId, toolName: tool });
  const { added } = compareRequests(live, definition);
  if (added.length > 0 && !mayApprove) {
    const message = `The draft requests ${added.join(", ")}, which the live version does not have. A key with the scope tools:approve may run it`;
    throw new ToolError("CAPABILITY_DENIED", message, { details: { added: [...added] } });
  }
  await box.addTool(given, { tenantId, grant });
  try {
    return await box.execute(
      { id: `${name}.call`, toolName: name, arguments: input },
      { tenantId, signal, timeline: true, logSourceLocations: true, ...(timeoutMs === undefined ? {} : { timeoutMs }) },
    );
  } finally {
    box.removeTool(name, { tenantId });
  }
}
