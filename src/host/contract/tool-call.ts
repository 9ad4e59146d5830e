// Defines the public types of a call: the call and its context, and the result that the caller receives.

import type { ContentPart } from "../../sandbox/contract/content.ts";
import type { ErrorCode, ToolErrorData } from "../../sandbox/contract/errors.ts";
import type { Progress } from "../../sandbox/protocol/messages.ts";
import type { LogEntry, LogListener } from "../observability/call-log.ts";
import type { ArgumentOptions, Coercion } from "../pipeline/coercion.ts";
import type { CallClient } from "./client-requests.ts";
import type { TimelineSpan } from "./timeline-span.ts";
import type { ToolValue } from "./tool-value.ts";

/** A request to run a tool. It has `arguments` or `argumentsText`, not both; without either, the arguments are `{}`. */
export interface ToolCall {
  readonly id: string;
  readonly toolName: string;
  /** A JSON value that the tool's schema accepts. It may contain bytes (`Uint8Array`). */
  readonly arguments?: unknown;
  /** The arguments as JSON text, as a model wrote them. Blank text means `{}`. */
  readonly argumentsText?: string | undefined;
}

/** The context of a call. `tenantId` is required with `tenancy: "multi"` and rejected with `tenancy: "single"`. */
export interface ToolContext {
  readonly tenantId?: string | undefined;
  readonly executionId?: string | undefined;
  readonly stepId?: string | undefined;
  /**
   * Session of the call, 1 to 256 characters. Calls of a tool with `isolateLifetime: "session"` share an isolate, and with it their state, if
   * they have the same tenant and session.
   */
  readonly sessionId?: string | undefined;
  /**
   * W3C trace context of the call, as in the headers of these names. If it is missing or invalid, the active OpenTelemetry span is the
   * parent. Read only if the host has configured `telemetry`.
   */
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
  /** Cancels the call: it fails with CANCELLED, and the tool is stopped. */
  readonly signal?: AbortSignal | undefined;
  /** Wall-clock limit in ms from admission, 1 to 300,000. The lowest value of host, tool and call applies. */
  readonly timeoutMs?: number | undefined;
  /** Receives each log line when it is written. */
  readonly onLog?: LogListener | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** Requests that the caller's client supports, for tools that are granted `elicit`, `sample` or `roots`. Default: none. */
  readonly client?: CallClient | undefined;
  /**
   * Makes the call repeatable: with the same seed, input and capability results it has the same output, byte for byte. Random numbers
   * follow from `seed` (1 to 256 characters), so they are not secret. The clock starts at `now` (ms since 1970; default: the start of
   * 2025) and moves only when one of the tool's timers fires. The call always runs in a new isolate.
   */
  readonly deterministic?: { readonly seed: string; readonly now?: number | undefined } | undefined;
  /** How invalid arguments of this call are corrected. Takes precedence over the options of the tool and the host. */
  readonly arguments?: ArgumentOptions | undefined;
  /** Adds the source location to each console line in the log, at about 20 µs a line. */
  readonly logSourceLocations?: boolean | undefined;
  /** Adds a timeline to the result and to the results of nested calls. @default false */
  readonly timeline?: boolean | undefined;
  /**
   * Digest of the tool that the caller was shown or approved, from `router.digestOf`. If the tool has another digest when the call starts,
   * the call does not run and fails with APPROVAL_REQUIRED.
   */
  readonly toolDigest?: string | undefined;
  /**
   * Version of the tool to run, 1 to 128 characters, for a tool that was registered with `setRelease`. Default: by the weights of its versions;
   * calls with the same `sessionId` run the same version as long as the weights do not change.
   */
  readonly toolVersion?: string | undefined;
}

/** A call for `ToolInvoker`, with its own time limit and context. Without an `id`, one is created. */
export interface ToolInvocation extends Omit<ToolCall, "id"> {
  readonly id?: string | undefined;
  /** Wall-clock limit in ms from the start of the call, 1 to 300,000. The lowest value of host, tool, context and this one applies. */
  readonly timeoutMs?: number | undefined;
  readonly context?: ToolContext | undefined;
}

/** Resources that a call used. Times are in ms. For a host function, only `executeMs`, `inputBytes` and `outputBytes` are measured. */
export interface ToolUsage {
  /** CPU time of the tool's isolate. If its process died or did not answer: the time since the process took the call, at most the limit. */
  readonly cpuMs: number;
  /** Memory in use at the end of the call, in bytes: V8 heap and array buffers. */
  readonly heapBytes: number;
  /** Largest growth of the worker process during the call, in bytes. Sampled 50 times a second, on Linux only. */
  readonly peakBytes: number;
  /** Time until a worker process took the call. */
  readonly queueMs: number;
  /** Time of the build; 0 for a tool that was already built. */
  readonly bundleMs: number;
  /** Time to create an isolate and load the bundle into it. */
  readonly startMs: number;
  /** Time in the tool. */
  readonly executeMs: number;
  readonly logsDropped: number;
  /** Size of the arguments: UTF-8 JSON, and bytes in them. 0 for a call that ended before its tool received them. */
  readonly inputBytes: number;
  /** Size of output, chunks and content: UTF-8 JSON, and bytes in them. 0 for a call that failed without chunks. */
  readonly outputBytes: number;
  /**
   * Bytes that the tool's requests (`fetch`) sent: request lines, headers and bodies as transferred, including redirects and failed
   * requests, without the overhead of TLS and TCP.
   */
  readonly egressBytesOut: number;
  /** Bytes that these requests received: status lines, headers and bodies as transferred, before decoding. */
  readonly egressBytesIn: number;
}

/** A call that a tool made, as listed in the result of the calling tool. Its cost is not part of the calling tool's `usage`. */
export interface NestedCall {
  readonly callId: string;
  readonly toolName: string;
  readonly durationMs: number;
  readonly cpuMs: number;
  /** Outcome of the call. */
  readonly code: "ok" | ErrorCode;
  readonly calls?: readonly NestedCall[];
  readonly timeline?: readonly TimelineSpan[];
}

interface ToolResultBase {
  readonly callId: string;
  readonly toolName: string;
  /** Version of the tool that ran, for a tool that was registered with `setRelease`. */
  readonly toolVersion?: string;
  /** Time in ms from admission to result. */
  readonly durationMs: number;
  readonly usage: ToolUsage;
  readonly logs: readonly LogEntry[];
  /** Calls of other tools that this call made, in the order in which they ended. Absent if it made none. */
  readonly calls?: readonly NestedCall[];
  /** Corrections of the arguments (see {@link ArgumentOptions}), in the order in which they were made. Absent if there were none. */
  readonly coercions?: readonly Coercion[];
  /** What the call did and when, by start, if the context asked for it. */
  readonly timeline?: readonly TimelineSpan[];
}

/** Result of a call: plain JSON, except for bytes in the output or content. `toJson` converts these bytes to base64 for a model. */
export type ToolResult =
  | (ToolResultBase & {
      readonly success: true;
      readonly output: ToolValue;
      /** Additional MCP content for a model. */
      readonly content?: readonly ContentPart[];
    })
  | (ToolResultBase & { readonly success: false; readonly error: ToolErrorData });

export const NO_USAGE: ToolUsage = {
  cpuMs: 0,
  heapBytes: 0,
  peakBytes: 0,
  queueMs: 0,
  bundleMs: 0,
  startMs: 0,
  executeMs: 0,
  logsDropped: 0,
  inputBytes: 0,
  outputBytes: 0,
  egressBytesOut: 0,
  egressBytesIn: 0,
};
