// Creates the registry's record of a tool, with its compiled schemas.
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import type { ToolExecutor } from "../executors/executor.ts";
import { compileSchema } from "../json-schema/compile-schema.ts";
import { parseArgumentOptions } from "../pipeline/coercion.ts";
import type { RegisterOptions } from "./registration.ts";
import type { RegisteredTool } from "./registry.ts";

interface RegistryEntry extends Omit<RegisterOptions, "scope"> {
  readonly defaultLimits?: PartialLimits | undefined;
  readonly hostLimits?: PartialLimits | undefined;
  readonly authorLimits?: PartialLimits | undefined;
  readonly contentDigest?: string | undefined;
  readonly contentHash?: string | undefined;
  readonly granted?: readonly string[] | undefined;
}

/**
 * Compiles the schemas of a tool.
 * @throws {ToolError} BUNDLE_FAILED for a schema that cannot be used
 */
export const compileSchemas = ({
  inputSchema,
  outputSchema,
}: ToolDefinition): Pick<RegisteredTool, "inputSchema" | "outputSchema"> => ({
  inputSchema: compileSchema(inputSchema, { subject: "inputSchema" }),
  outputSchema: outputSchema === undefined ? undefined : compileSchema(outputSchema, { subject: "outputSchema" }),
});

/**
 * Returns the registry's record of a tool. Compiles its schemas, once for all calls.
 * @throws {ToolError} BUNDLE_FAILED for a schema that cannot be used
 */
export function toRegisteredTool(
  definition: ToolDefinition,
  executor: ToolExecutor,
  entry: RegistryEntry,
): RegisteredTool {
  return {
    definition,
    tenantId: entry.tenantId,
    executor,
    ...compileSchemas(definition),
    defaultLimits: entry.defaultLimits,
    hostLimits: entry.hostLimits,
    authorLimits: entry.authorLimits,
    arguments: parseArgumentOptions(entry.arguments, "options.arguments"),
    contentDigest: entry.contentDigest,
    contentHash: entry.contentHash,
    granted: entry.granted,
    addedAt: Date.now(),
  };
}
