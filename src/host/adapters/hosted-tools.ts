// Selects the tools of a host that are passed to a framework.
import * as z from "zod";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { unavailable } from "../../sandbox/contract/errors.ts";
import { isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import { type AgentRouter, type CallRouter, toCallRouter } from "../agent/tools/call-tool.ts";
import { parseOptions, unknownOptionError } from "../config/option-errors.ts";
import type { CallContext } from "../contract/tool-call.ts";
import { CONTEXT_FIELDS, readExplicitContext } from "../pipeline/read-context.ts";
import { checkDefinition, checkDefinitions } from "../routing/definitions.ts";
import { TenantIdSchema } from "../routing/tenant-scope.ts";
import { tenancyOf } from "../tenants/tenancy.ts";

/** A Glovebox, or a ToolRouter. */
export type HostedTools = AgentRouter;

export interface ToolSelection {
  /**
   * The tenant whose tools are listed and called, 1 to 1,024 characters. Required for a host with `tenancy: "multi"`, and rejected for a
   * host with `tenancy: "single"`.
   */
  readonly tenantId?: string | undefined;
  /**
   * Restricts the tools to these, by name or as returned by `await glovebox.listTools({ tenantId })`, which also waits for feature flags.
   * @default all tools of the tenant that are known to be enabled
   */
  readonly tools?: readonly (string | ToolDefinition)[] | undefined;
  /** Context of every call: `timeoutMs`, `executionId`, `onLog` and others. */
  readonly context?: Omit<CallContext, "tenantId" | "signal"> | undefined;
}

const OWN_FIELDS: readonly string[] = ["tenantId", "signal"];
const CALL_FIELDS: readonly string[] = CONTEXT_FIELDS.filter((field) => !OWN_FIELDS.includes(field));

const EdgeToolsSchema = strictObject({
  tenantId: TenantIdSchema.optional(),
  tools: z.custom<readonly unknown[]>(Array.isArray, "Expected an array of names and tool definitions").optional(),
  context: z.custom<object>(isPlainObject, "Expected a plain object").default({}),
});

/** The selected tools, and the context of their calls. */
export interface SelectedTools {
  readonly router: CallRouter;
  readonly definitions: readonly ToolDefinition[];
  /** Returns the context of one call that the framework makes. */
  contextOf(signal: AbortSignal | undefined): CallContext;
}

/**
 * Selects tools of a host.
 * @throws {ToolError} PARAM_INVALID for an unknown option or one of the wrong type, naming its path, and for a missing or unexpected
 * tenant; TOOL_UNAVAILABLE if a tool that is requested by name does not exist
 */
export function selectTools(host: HostedTools, options: unknown = {}): SelectedTools {
  const { tenantId, tools: requested, context } = parseOptions(EdgeToolsSchema, options, "options");
  const unknown = Object.keys(context).find((key) => !CALL_FIELDS.includes(key));
  if (unknown !== undefined) throw unknownOptionError("options.context", unknown, CALL_FIELDS);
  const contextFields = readExplicitContext(context);
  const router = toCallRouter(host);
  tenancyOf(router)?.tenantOf(tenantId);
  const scope = tenantId === undefined ? {} : { tenantId };
  const all = checkDefinitions(router.getRegisteredTools(scope), "host.getRegisteredTools()");
  const find = (name: string): ToolDefinition => {
    const found = all.find((definition) => definition.name === name);
    if (found !== undefined) return found;
    throw unavailable("not_found", `There is no tool named ${JSON.stringify(name)} that can be called`);
  };
  const toDefinition = (one: unknown, index: number): ToolDefinition =>
    typeof one === "string" ? find(one) : checkDefinition(one, `options.tools[${index}]`);
  return {
    router,
    definitions: requested === undefined ? all : Array.from(requested, toDefinition),
    contextOf: (signal) => ({ ...contextFields, ...scope, signal }),
  };
}
