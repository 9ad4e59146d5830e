// Defines the public types of a call: the call and its context, and the result that the caller receives.

import type { ContentPart } from "../../sandbox/contract/content.ts";
import type { ErrorCode, ToolErrorData } from "../../sandbox/contract/errors.ts";
import type { Progress } from "../../sandbox/protocol/worker-messages.ts";
import type { LogEntry, LogListener } from "../observability/call-log.ts";
import type { ArgumentOptions, Coercion } from "../pipeline/coercion.ts";
import type { RecordOptions } from "../recording/record-options.ts";
import type { PreparedReplay } from "../recording/replay.ts";
import type { RunAttempt } from "../runs/run-attempt.ts";
import type { QuotaOptions } from "../tenants/quotas/quota-options.ts";
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

/** A call that a tool is about to make. */
export interface NestedCallStart {
  readonly callId: string;
  readonly toolName: string;
  /** Id of the call that makes it: the observed call, or one that is nested in it. */
  readonly parentCallId: string;
  /** The arguments as the calling tool has sent them, not validated: JSON, and bytes in it. */
  readonly arguments: unknown;
  /** Time in ms since 1970. */
  readonly startedAt: number;
  /** Set if a person has approved this call: in the durable run that makes it, with these arguments, and for the tool that would run now. */
  readonly isApproved?: true | undefined;
}

/** Functions that observe all calls nested in one call, at any depth. */
export interface NestedCallObserver {
  /**
   * Called before a nested call starts. If it throws or rejects, the call is denied and its tool does not run: a ToolError reaches the calling
   * tool, anything else does so as INTERNAL. The wait counts against the time of the calling tool.
   */
  readonly onStart?: ((call: NestedCallStart) => void | Promise<void>) | undefined;
  /** Called with the result of each nested call that `onStart` has not denied. Is not awaited and cannot change the result. */
  readonly onEnd?: ((call: NestedCallStart, result: ToolResult) => unknown) | undefined;
}

/** Quotas of the caller of a call. */
export interface CallerQuotas {
  /**
   * Id of the caller, 1 to 256 characters. The quota store keeps the caller's counters under it as it keeps a tenant's under the tenant's id,
   * so no tenant may have the same id.
   */
  readonly id: string;
  readonly quotas: QuotaOptions;
}

/** The context of a call. `tenantId` is required with `tenancy: "multi"` and rejected with `tenancy: "single"`. */
export interface CallContext {
  /** Tenant of the call, 1 to 1,024 characters. Required with `tenancy: "multi"`, an error with `tenancy: "single"`. */
  readonly tenantId?: string | undefined;
  /** The caller's id of the execution that the call belongs to. Hooks, logs and traces have it. */
  readonly executionId?: string | undefined;
  /** The caller's id of the step within the execution. Hooks, logs and traces have it. */
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
  /** The vendors' part of the W3C trace context. */
  readonly tracestate?: string | undefined;
  /** Cancels the call: it fails with CANCELLED, and the tool is stopped. */
  readonly signal?: AbortSignal | undefined;
  /** Wall-clock limit in ms from admission, 1 to 300,000. The lowest value of host, tool and call applies. */
  readonly timeoutMs?: number | undefined;
  /** Receives each log line when it is written. */
  readonly onLog?: LogListener | undefined;
  /** Receives each progress report when it is made. */
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** Requests that the caller's client supports, for tools that are granted `elicit`, `sample` or `roots`. Default: none. */
  readonly client?: CallClient | undefined;
  /**
   * Makes the call repeatable: with the same seed, input and capability results it has the same output, byte for byte. The clock moves only
   * when one of the tool's timers fires, and none fires while the tool waits for a capability. The call always runs in a new isolate.
   */
  readonly deterministic?:
    | {
        /** Random numbers follow from it, so they are not secret. 1 to 256 characters. */
        readonly seed: string;
        /** Time in ms since 1970 at which the clock starts. Default: the start of 2025. */
        readonly now?: number | undefined;
      }
    | undefined;
  /**
   * Records the call, so that `glovebox.replay` can run it again without its capabilities. The call runs in an isolate of its own, whose
   * clock stands still while code runs. Only for sandboxed tools, outside of sessions and without `deterministic`.
   */
  readonly record?: RecordOptions | undefined;
  /**
   * Set by `glovebox.replay`.
   * @internal
   */
  readonly replay?: PreparedReplay | undefined;
  /** Set by `runs.start` and `runs.resume`. */
  readonly run?: RunAttempt | undefined;
  /** How invalid arguments of this call are corrected. Takes precedence over the options of the tool and the host. */
  readonly arguments?: ArgumentOptions | undefined;
  /** Adds the source location to each console line in the log, at about 20 µs a line. */
  readonly logSourceLocations?: boolean | undefined;
  /** Adds a timeline to the result and to the results of nested calls. @default false */
  readonly timeline?: boolean | undefined;
  /** Observes the calls that the tool makes, and those that they make, and can deny them. */
  readonly nestedCalls?: NestedCallObserver | undefined;
  /**
   * Quotas of the caller, such as an API key or a user of the tenant. They apply in addition to the tenant's, and to nested calls too. A call
   * that exceeds one of them is charged to neither the caller nor the tenant.
   */
  readonly callerQuotas?: CallerQuotas | undefined;
  /**
   * Digest of the tool that the caller was shown or approved, from `router.digestOf`. If the tool has another digest when the call starts,
   * the call does not run and fails with APPROVAL_REQUIRED. For a tool that was registered with `setRelease`, the call runs a version that has
   * the digest, whatever its weight is.
   */
  readonly toolDigest?: string | undefined;
  /**
   * Version of the tool to run, 1 to 128 characters, for a tool that was registered with `setRelease`. Default: by the weights of its versions,
   * or by `toolDigest`; calls with the same `sessionId` run the same version as long as the weights do not change.
   */
  readonly toolVersion?: string | undefined;
}

/** A call for `ToolInvoker`, with its own time limit and context. Without an `id`, one is created. */
export interface ToolInvocation extends Omit<ToolCall, "id"> {
  readonly id?: string | undefined;
  /** Wall-clock limit in ms from the start of the call, 1 to 300,000. The lowest value of host, tool, context and this one applies. */
  readonly timeoutMs?: number | undefined;
  readonly context?: CallContext | undefined;
}

/** Resources that a call used. Times are in ms. For a host function, only `executeMs`, `inputBytes` and `outputBytes` are measured. */
export interface ToolUsage {
  /** CPU time of the tool's isolate. If its process died or did not answer: the time since the process took the call, at most the limit. */
  readonly cpuMs: number;
  /**
   * Memory in use at the end of the call, in bytes: V8 heap and array buffers. 0 if it could not be read: the tool's code was still running,
   * or its isolate or process had ended.
   */
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
  /** Set in the timeline of a running call for a nested call that has not ended: `durationMs` is the time so far, and `code` is "ok". */
  readonly isOpen?: true;
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
