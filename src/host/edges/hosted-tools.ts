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
  /**
   * Only these, by name or as `await box.listTools({ tenantId })` gives them, which asks feature flags too; all that the tenant surely has
   * unless stated.
   */
  readonly tools?: readonly (string | ToolDefinition)[];
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
  const find = (name: string): ToolDefinition => {
    const found = all.find((definition) => definition.name === name);
    if (found !== undefined) return found;
    throw new ToolError("TOOL_UNAVAILABLE", `There is no tool named ${JSON.stringify(name)} for this tenant`);
  };
  const definitions = wanted?.map((one) => (typeof one === "string" ? find(one) : one)) ?? all;
  return { router, definitions };
}

/** Of one call of the framework's. */
export const contextOf = ({ context, tenantId }: EdgeTools, signal: AbortSignal | undefined): ToolContext => ({
  ...context,
  tenantId,
  signal,
});
