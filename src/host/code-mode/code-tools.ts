// The capability behind `tools.NAME(input)` in code: finds the tool by its name in code, requests approval where the rule demands it, and runs
// the call through the router, with the tenant, the limits and the remaining time of the run.
import { isRepeatableTool } from "../../sandbox/contract/definition.ts";
import { type JsonValue, unavailable } from "../../sandbox/contract/errors.ts";
import type { Capability, CapabilityContext } from "../capabilities/capability.ts";
import { callNested, defineToolCalls, type NestedRouter, pinTo, type ToolPin } from "../capabilities/tools.ts";
import { findNearestName } from "../config/option-errors.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import { type ApprovedCalls, showCall, type ToolCallRules, toArguments } from "../runs/call-approval.ts";
import type { CodeTool } from "./api/code-api.ts";
import type { ApprovalGate } from "./code-approvals.ts";
import type { CodeHost } from "./code-host.ts";
import type { CodeTools } from "./pinned-tools.ts";

/** Longest name that code may pass: a server's and a tool's. */
const MAX_NAME = 257;

export interface CodeToolsDependencies {
  readonly router: Pick<ToolRouter, "digestOf" | "tenancy" | "registry"> & NestedRouter;
  readonly api: CodeTools;
  /** Undefined if no call needs approval. */
  readonly gate: ApprovalGate | undefined;
  /** Decides instead of the gate which calls need approval, and checks each call again when it starts. */
  readonly hosted?: CodeHost | undefined;
  /** Whether a durable run has decided about the approval before the call is made. */
  readonly isDecided?: boolean;
  /** The calls that a durable run has let through. */
  readonly approved?: ApprovedCalls | undefined;
}

/** Returns what a call of a tool that code sees may run. @throws {ToolError} TOOL_UNAVAILABLE if the tool has changed */
function pinOf(router: CodeToolsDependencies["router"], { definition, toolName }: CodeTool, tenantId: string): ToolPin {
  const toolDigest = router.digestOf(definition, router.tenancy.optionOf(tenantId));
  if (toolDigest === undefined)
    throw unavailable("tool_changed", `The tool "${toolName}" has changed; run the code again`);
  return pinTo(toolDigest, router.registry.get(toolName, tenantId));
}

/** @throws {ToolError} TOOL_UNAVAILABLE if code may not call a tool of this name */
function findTool(api: CodeTools, name: string): CodeTool {
  const tool = api.find(name);
  if (tool !== undefined) return tool;
  const closest = findNearestName(
    name,
    api.tools.map(({ codeName }) => codeName),
  );
  const hint = closest === undefined ? "Find tools with search_tools" : `Did you mean tools.${closest}?`;
  throw unavailable("not_found", `There is no tool "${name.slice(0, 100)}". ${hint}`);
}

/** Returns the rules by which a durable run decides about the calls of code, which wait for approval instead of failing. */
export function rulesOf(
  { router, api, gate, hosted, approved }: CodeToolsDependencies,
  { tenantId, callId, signal }: Pick<CapabilityContext, "tenantId" | "callId" | "signal">,
): ToolCallRules {
  return {
    isRepeatable: ({ name }) => {
      const tool = api.find(name);
      return tool !== undefined && isRepeatableTool(tool.definition);
    },
    approvalOf: async ({ name, args }) => {
      const tool = api.find(name);
      // A call of a tool that does not exist fails without approval.
      if (tool === undefined) return undefined;
      const { definition, toolName } = tool;
      const needed = await hosted?.approvalOf(toolName);
      const toolDigest = router.digestOf(definition, router.tenancy.optionOf(tenantId)) ?? "";
      const isNeeded =
        needed !== undefined ||
        (await gate?.isNeeded({ definition, toolDigest, args }, { tenantId, callId, signal })) === true;
      if (!isNeeded) return undefined;
      return { toolName, toolDigest, ...showCall("The code", toolName, args), ...needed };
    },
    noteApproved: ({ name, args }, toolDigest) => {
      const tool = api.find(name);
      if (tool !== undefined) approved?.add(tool.toolName, args, toolDigest);
    },
  };
}

/** Creates the capability for one run. */
export const createCodeToolsCapability = ({
  router,
  api,
  gate,
  isDecided,
  approved,
}: CodeToolsDependencies): Capability =>
  defineToolCalls({
    description: "Calls the tools that the code may use",
    maxName: MAX_NAME,
    call: async (name, given, context) => {
      const tool = findTool(api, name);
      const { definition, toolName } = tool;
      const args = (given ?? {}) as JsonValue;
      const approvedDigest = approved?.take(toolName, args);
      if (gate === undefined && approvedDigest === undefined)
        return await callNested(router, { name: toolName, shownName: name, args }, context);
      const pin = pinOf(router, tool, context.tenantId);
      const { toolDigest } = pin;
      if (approvedDigest !== undefined && approvedDigest !== toolDigest)
        throw unavailable("tool_changed", `The tool "${toolName}" has changed since the call was approved`);
      if (gate !== undefined && isDecided !== true)
        await gate.check({ definition, toolDigest, args: toArguments(args) }, context);
      const isApproved = approvedDigest !== undefined;
      return await callNested(router, { name: toolName, shownName: name, args, pin, isApproved }, context);
    },
  });
