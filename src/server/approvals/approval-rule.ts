// Decides which calls wait for a person's approval: by the tenant's policy, or by the tool's annotations.
import { createHash } from "node:crypto";
import { matchesName, type RegisteredTool, type ToolDefinition, ToolError } from "../../host/index.ts";
import { keptInputText } from "../calls/input-text.ts";
import type { ApprovalsTable } from "../database/tables/call-tables.ts";
import type { ServerTenantPolicy } from "../records/tenants/tenant-policy.ts";

export type ApprovalReason = ApprovalsTable["because"];

/** Returns whether a tool is destructive by its annotations. */
export const isDestructive = ({ annotations }: ToolDefinition): boolean =>
  annotations?.destructiveHint === true && annotations.readOnlyHint !== true;

/** Whether any version of a tool is destructive, by the registered tool, which changes with its release. */
const destructiveTools = new WeakMap<RegisteredTool, boolean>();

function hasDestructiveVersion(tool: RegisteredTool): boolean {
  const known = destructiveTools.get(tool);
  if (known !== undefined) return known;
  const versions = tool.release?.tools ?? [tool];
  const found = versions.some(({ definition }) => isDestructive(definition));
  destructiveTools.set(tool, found);
  return found;
}

/** Returns why calls of a tool may have to wait; undefined if none of its versions has to. It is almost free for such a tool. */
export function mayWait(
  { approvals: { tools, destructive } }: Pick<ServerTenantPolicy, "approvals">,
  tool: RegisteredTool,
): ApprovalReason | undefined {
  if (tools.some((pattern) => matchesName(pattern, tool.definition.name))) return "policy";
  return destructive && hasDestructiveVersion(tool) ? "destructive" : undefined;
}

/** Returns whether a version has to wait for this reason. */
export const mustWait = (reason: ApprovalReason, version: RegisteredTool): boolean =>
  reason === "policy" || isDestructive(version.definition);

/**
 * Returns the JSON text of an input, as a call that waits stores it.
 * @throws {ToolError} APPROVAL_REQUIRED for an input with bytes, which JSON text cannot represent
 */
export function toApprovalText(input: unknown, toolName: string): string {
  const kept = keptInputText(input);
  if (kept !== undefined) return kept;
  return JSON.stringify(input ?? {}, function (this: { readonly [key: string]: unknown }, key, value) {
    if (!ArrayBuffer.isView(this[key])) return value;
    const message = `The call of "${toolName}" needs an approval, and its arguments contain bytes, which cannot be approved`;
    throw new ToolError("APPROVAL_REQUIRED", message, { recoverable: false, details: { approved: false } });
  });
}

export const sha256Of = (text: string): string => createHash("sha256").update(text).digest("hex");
