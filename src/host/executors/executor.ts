// Interface between the router and the code that runs a call: sandboxed tools, trusted host functions and upstream
// servers.

import type { CallLog } from "../observability/call-log.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { Execution } from "./execution.ts";
import type { WarmVersion } from "./warm-version.ts";

/**
 * Kinds of tool sources. `sandbox` is JavaScript and `python` is Python, both sandboxed. `mcp` sources are added with
 * {@link ToolRouter.addToolProvider}.
 */
export const SOURCE_KINDS = ["sandbox", "host", "mcp", "python"] as const;
/** What runs a tool: an isolate (`sandbox`), a Python process (`python`), a function of the host (`host`) or an MCP server (`mcp`). */
export type SourceKind = (typeof SOURCE_KINDS)[number];

/**
 * Runs prepared calls of one tool. Settles soon after `call.signal` aborts, with the signal's reason as the error. If
 * it rejects, the router returns INTERNAL.
 */
export interface ToolExecutor {
  /** Kind of the tool's source, for routing, listing and telemetry. */
  readonly source: SourceKind;
  /**
   * Id of the source: the unit that is available or unavailable as a whole. Each sandboxed tool and each host function
   * is a source of its own (`sandbox:add`, `host:lookUp`); an upstream server is one source with all its tools. Without
   * an id, the source's health is not tracked.
   */
  readonly sourceId?: string | undefined;
  /** The form in which the executor takes the arguments. With `text`, the host parses them only if that is necessary. */
  readonly wants: "text" | "value";
  /** Runs a call. */
  execute(call: PreparedCall, log: CallLog): Promise<Execution>;
  /** Profiles and warm isolates of a sandboxed tool in the worker processes. */
  readonly warm?: WarmVersion | undefined;
  /** Releases warm isolates of a tool that was removed or replaced. Running calls continue. */
  retire?(): void;
}
