// Decides which calls that the run of a tool makes with ctx.tools wait for an approval, and which may be made again.
import { readRequestedList } from "../../sandbox/contract/capability-requests.ts";
import { isRepeatableTool } from "../../sandbox/contract/definition.ts";
import { digestOfTool } from "../pipeline/tool-digest.ts";
import { matchesName } from "../routing/name-wildcard.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import { type ApprovedCalls, showCall, type ToolCallRules } from "./call-approval.ts";

export interface ToolRun {
  readonly registry: Pick<ToolRouter["registry"], "get">;
  readonly tenantId: string;
  /** The tool whose run it is. */
  readonly toolName: string;
  readonly toolVersion: string | undefined;
  readonly approved: ApprovedCalls;
  /** As `approvalOf` of a RunContext. */
  readonly approvalOf: ((toolName: string) => Promise<{ readonly expiresInMs?: number } | undefined>) | undefined;
}

/** Returns the rules for the calls that the run of a tool makes with `ctx.tools`. */
export function rulesOfToolRun({ registry, tenantId, approved, ...run }: ToolRun): ToolCallRules {
  const own = registry.get(run.toolName, tenantId);
  const version = run.toolVersion === undefined ? undefined : own?.release?.get(run.toolVersion);
  const patterns = readRequestedList((version ?? own)?.definition.capabilities ?? {}, "tools");
  /** A call that the tool has not requested fails without approval. */
  const isRequested = (name: string): boolean =>
    patterns === undefined || patterns.some((pattern) => typeof pattern === "string" && matchesName(pattern, name));
  return {
    isRepeatable: ({ name }) => {
      const tool = registry.get(name, tenantId);
      return tool !== undefined && isRepeatableTool(tool.definition);
    },
    approvalOf: async ({ name: toolName, args }) => {
      if (run.approvalOf === undefined || !isRequested(toolName)) return undefined;
      const needed = await run.approvalOf(toolName);
      const tool = registry.get(toolName, tenantId);
      // A call of a tool that does not exist fails without approval.
      if (needed === undefined || tool === undefined) return undefined;
      const { expiresInMs } = needed;
      const shown = showCall(`The tool "${run.toolName}"`, toolName, args);
      return { toolName, toolDigest: digestOfTool(tool), ...shown, expiresInMs };
    },
    noteApproved: ({ name, args }, toolDigest) => approved.add(name, args, toolDigest),
  };
}
