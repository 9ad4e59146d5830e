// Which of a host's tools go to a framework.
import type { ToolDefinition } from "../../sandbox/definition.ts";
import { ToolError } from "../../sandbox/errors.ts";
import { type AgentRouter, type CallRouter, toCallRouter } from "../agent/call-tool.ts";
import { DEFAULT_TENANT } from "../pipeline/validate.ts";
import type { ToolContext } from "../tool-call.ts";

/** A Glovebox, or a ToolRouter. */
export type HostedTools = AgentRouter;

export interface EdgeTools {
  /** Whose tools, and on whose behalf they are called; the tenant `default` unless stated. */
  readonly tenantId?: string;
  /** Only these, by name; all that the tenant has unless stated. */
  readonly tools?: readonly string[];
  /** For every call: `timeoutMs`, `executionId`, `onLog` … */
  readonly context?: Omit<ToolContext, "tenantId" | "signal">;
}

/** @throws {ToolError} TOOL_UNAVAILABLE for a tool that is asked for by name and is not there */
export function selectTools(
  host: HostedTools,
  { tenantId = DEFAULT_TENANT, tools: wanted }: EdgeTools,
): { readonly router: CallRouter; readonly definitions: readonly ToolDefinition[] } {
  const router = toCallRouter(host);
  const all = router.getRegisteredTools({ tenantId });
  const missing = wanted?.find((name) => !all.some((definition) => definition.name === name));
  if (missing !== undefined) {
    throw new ToolError("TOOL_UNAVAILABLE", `There is no tool named ${JSON.stringify(missing)} for this tenant`);
  }
  return { router, definitions: wanted === undefined ? all : all.filter(({ name }) => wanted.includes(name)) };
}

/** Of one call of the framework's. */
export const contextOf = ({ context, tenantId }: EdgeTools, signal: AbortSignal | undefined): ToolContext => ({
  ...context,
  tenantId,
  signal,
});
