// A tool as `listTools()` of a Glovebox returns it: its definition with metadata for the operator. A listed tool can be passed
// wherever a definition is expected.
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { SourceKind } from "../executors/executor.ts";
import { digestOfTool } from "../pipeline/tool-digest.ts";
import type { RegisteredTool } from "./registry.ts";

/** Metadata of a listed tool. */
export interface ToolMetadata {
  /** SHA-256 of the whole tool in hexadecimal, as `router.digestOf` returns it, for `context.toolDigest` of a call. */
  readonly digest: string;
  /** SHA-256 of a sandboxed tool's code alone: of its bundle, or of its source in Python. Absent for other tools. */
  readonly contentHash?: string;
  /** When the owner's tool of this name was added, in ms since 1970; absent if the host's own registry does not store it. */
  readonly addedAt?: number;
  /** When `updateTool` last replaced the tool, in ms since 1970; absent if it never did. */
  readonly updatedAt?: number;
  /**
   * Capabilities and engine features that the host granted by name, sorted. Every sandboxed tool has `log`, which is not listed. Absent for
   * tools that do not run in the sandbox.
   */
  readonly granted?: readonly string[];
  /** Limits in effect for calls of the tenant. A call can only lower them. */
  readonly limits: Limits;
  /** `tenant` for the tenant's own tool, `global` for a tool of all tenants. */
  readonly scope: "tenant" | "global";
  /** The owner; absent for a tool of all tenants. */
  readonly tenantId?: string;
  /** Kind of source: `sandbox` (JavaScript), `python`, `host` or `mcp`. */
  readonly source: SourceKind;
  /** Id of the source, as in `health()`. */
  readonly sourceId?: string;
}

/** A definition with `metadata`. Models do not see the metadata, and digests do not cover it. */
export interface ListedTool extends ToolDefinition {
  readonly metadata: ToolMetadata;
}

export function toListedTool(tool: RegisteredTool, limits: Limits): ListedTool {
  const { definition, tenantId, executor, contentHash, addedAt, updatedAt, granted } = tool;
  const { source, sourceId } = executor;
  const metadata: ToolMetadata = {
    digest: digestOfTool(tool),
    ...(contentHash === undefined ? {} : { contentHash }),
    ...(addedAt === undefined ? {} : { addedAt }),
    ...(updatedAt === undefined ? {} : { updatedAt }),
    ...(granted === undefined ? {} : { granted }),
    limits,
    ...(tenantId === undefined ? { scope: "global" } : { scope: "tenant", tenantId }),
    source,
    ...(sourceId === undefined ? {} : { sourceId }),
  };
  return { ...definition, metadata };
}
