// A RegisteredTool without a sandbox behind it, for tests of the parts that only pass it on.

import { NO_USAGE } from "../../src/host/contract/tool-call.ts";
import type { Execution } from "../../src/host/executors/execution.ts";
import type { ToolExecutor } from "../../src/host/executors/executor.ts";
import { toRegisteredTool } from "../../src/host/routing/registered-tool.ts";
import type { RegisteredTool } from "../../src/host/routing/registry.ts";
import type { ToolDefinition } from "../../src/sandbox/contract/definition.ts";
import type { PartialLimits } from "../../src/sandbox/contract/limits.ts";

export function fixedExecutor(outputText: string): ToolExecutor {
  return { source: "host", wants: "value", execute: async (): Promise<Execution> => ({ usage: NO_USAGE, outputText }) };
}

export interface ToolParts extends Partial<Omit<ToolDefinition, "limits">> {
  readonly tenantId?: string | undefined;
  readonly executor?: ToolExecutor;
  readonly hostLimits?: PartialLimits;
  readonly authorLimits?: PartialLimits;
}

export function makeTool(parts: ToolParts = {}): RegisteredTool {
  const { tenantId, executor = fixedExecutor("null"), hostLimits, authorLimits, ...rest } = parts;
  const definition: ToolDefinition = { name: "probe", description: "", inputSchema: { type: "object" }, ...rest };
  const entry = { ...(tenantId === undefined ? {} : { tenantId }), hostLimits, authorLimits };
  return toRegisteredTool(definition, executor, entry);
}
