// Which of a host's tools go to a framework, under which names.
import type { ToolDefinition } from "../../sandbox/definition.ts";
import { ToolError } from "../../sandbox/errors.ts";
import { DEFAULT_TENANT } from "../pipeline/validate.ts";
import type { ToolRouter } from "../router.ts";
import type { ToolContext } from "../tool-call.ts";
import { toAliases } from "./tool-aliases.ts";

type Router = Pick<ToolRouter, "execute" | "getRegisteredTools">;

/** A Glovebox, or a ToolRouter. */
export type HostedTools = Router | { readonly router: Router };

export interface EdgeTools {
  /** Whose tools, and on whose behalf they are called; the tenant `default` unless stated. */
  readonly tenantId?: string;
  /** Only these, by name; all that the tenant has unless stated. */
  readonly tools?: readonly string[];
  /** For every call: `timeoutMs`, `executionId`, `onLog` … */
  readonly context?: Omit<ToolContext, "tenantId" | "signal">;
}

export interface SelectedTool {
  /** What the provider knows it as. */
  readonly alias: string;
  readonly definition: ToolDefinition;
}

const routerOf = (host: HostedTools): Router => ("router" in host ? host.router : host);

/** @throws {ToolError} TOOL_UNAVAILABLE for a tool that is asked for by name and is not there */
export function selectTools(
  host: HostedTools,
  { tenantId = DEFAULT_TENANT, tools: wanted }: EdgeTools,
): { readonly router: Router; readonly tools: readonly SelectedTool[] } {
  const router = routerOf(host);
  const all = new Map(router.getRegisteredTools({ tenantId }).map((definition) => [definition.name, definition]));
  const missing = wanted?.find((name) => !all.has(name));
  if (missing !== undefined) {
    throw new ToolError("TOOL_UNAVAILABLE", `There is no tool named ${JSON.stringify(missing)} for this tenant`);
  }
  const names = wanted ?? [...all.keys()];
  const aliases = toAliases(names);
  const tools = names.map((name) => ({
    alias: aliases.get(name) as string,
    definition: all.get(name) as ToolDefinition,
  }));
  return { router, tools };
}
