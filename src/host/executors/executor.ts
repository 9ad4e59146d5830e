// The seam between the router and what runs a call: sandboxed tools, trusted host functions, later upstream servers.

import type { CallLog } from "../observability/call-log.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { Execution } from "./execution.ts";
import type { WarmVersion } from "./warm-version.ts";

/** `sandbox` is JavaScript, `python` too runs in the sandbox; `mcp` and others are added to a router: {@link ToolRouter.addSource}. */
export const SOURCE_KINDS = ["sandbox", "host", "mcp", "python"] as const;
export type SourceKind = (typeof SOURCE_KINDS)[number];

/**
 * Runs prepared calls of one tool. Settles soon after `call.signal` aborts, with the signal's reason as the error.
 * May reject: the router answers INTERNAL then.
 */
export interface Executor {
  /** Where the tool comes from, for routing, listing and telemetry. */
  readonly source: SourceKind;
  /**
   * Which one of them: what is there or not there as one. Each sandboxed tool and each host function is one by itself
   * (`sandbox:add`, `host:lookUp`); an upstream server is one with all its tools. Without it no health is kept.
   */
  readonly sourceId?: string | undefined;
  /** What it takes of a call's arguments: a value that nobody wants is not made. */
  readonly wants: "text" | "value";
  execute(call: PreparedCall, log: CallLog): Promise<Execution>;
  /** Of a sandboxed tool: what worker processes know of it. */
  readonly warm?: WarmVersion | undefined;
  /** Releases what is kept warm of the tool, which has been removed or has another version. Calls of it that run go on. */
  retire?(): void;
}
