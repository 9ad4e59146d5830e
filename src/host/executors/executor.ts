// The seam between the router and what runs a call: sandboxed tools, trusted host functions, later upstream servers.
import type { ToolError } from "../../sandbox/contract/errors.ts";
import type { CallLog } from "../observability/call-log.ts";
import type { PreparedCall, ToolUsage } from "../contract/tool-call.ts";
import type { ReadBeside } from "../contract/tool-value.ts";
import type { Payer } from "../util/time-slicing.ts";
import type { WarmVersion } from "./warm-version.ts";

/** How an execution ended: `outputText` is JSON that nobody has looked at yet. */
export type Execution =
  | {
      readonly usage: ToolUsage;
      readonly outputText: string | Buffer;
      /** The bytes that belong into it. */
      readonly outputBytes?: ReadBeside | undefined;
      /** How many bytes belong into its text and its content. */
      readonly besideBytes?: number | undefined;
      /** Its content, as JSON text of the same kind. */
      readonly content?: { readonly text: string | Buffer; readonly bytes?: ReadBeside | undefined } | undefined;
      /** The chunks were the output: this one says nothing, and no schema is about it. */
      readonly isStreamed?: boolean;
      /** Whose host time it is that reading a large output takes. */
      readonly payer?: Payer;
    }
  | {
      readonly usage: ToolUsage;
      readonly error: ToolError;
      /** The source itself has failed, not its tool: it could not be reached, did not answer in time, or broke. */
      readonly isSourceFailure?: boolean;
    };

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
