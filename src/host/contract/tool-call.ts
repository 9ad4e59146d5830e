// The words of the public face: what a caller hands in, what it gets back, and what passes between the router's stages.

import type { ContentPart } from "../../sandbox/contract/content.ts";
import type { ErrorCode, ToolErrorData } from "../../sandbox/contract/errors.ts";
import type { Progress } from "../../sandbox/protocol/messages.ts";
import type { LogEntry, LogListener } from "../observability/call-log.ts";
import type { Amendment, ArgumentOptions } from "../pipeline/amend.ts";
import type { CallClient } from "./client-requests.ts";
import type { ToolValue } from "./tool-value.ts";

/** One request to run a tool, with `arguments` or `argumentsText`, not both; without either they are `{}`. */
export interface ToolCall {
  readonly id: string;
  readonly toolName: string;
  /** Any JSON value that the tool's schema takes, with bytes (Uint8Array) in it. */
  readonly arguments?: unknown;
  /** The same as JSON text, as a model wrote it; blank text is `{}`. */
  readonly argumentsText?: string | undefined;
}

/** Who calls, and how. `tenantId` is required with `tenancy: "multi"`, and rejected with `tenancy: "single"`. */
export interface ToolContext {
  readonly tenantId?: string | undefined;
  readonly executionId?: string | undefined;
  readonly stepId?: string | undefined;
  /**
   * Which conversation the call is part of, 1 to 256 characters: for tools with `isolation: "session"`, whose calls of one conversation
   * find what the earlier ones have left. A tenant's conversations are its own.
   */
  readonly sessionId?: string | undefined;
  /**
   * The trace that the call is part of, as in W3C's headers of these names; without, or where it is none, the active one of
   * OpenTelemetry. Read where the host has telemetry.
   */
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
  /** Ends the call at once, with CANCELLED; the tool is stopped, not abandoned. */
  readonly signal?: AbortSignal | undefined;
  /** Wall time in ms from admission, 1 to 300,000. The lowest of host, tool and call wins. */
  readonly timeoutMs?: number | undefined;
  /** Each log line as it comes. */
  readonly onLog?: LogListener | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** What the tool can ask of whoever calls, if it is granted `elicit`, `sample` or `roots`; nothing unless stated. */
  readonly client?: CallClient | undefined;
  /**
   * For a call that is to repeat exactly: with the same seed, input and answers of the host it has the same output, byte for byte. Its
   * random numbers follow from `seed`, text of 1 to 256 characters; its clock begins at `now` (ms since 1970, the beginning of 2025 unless
   * stated) and moves only when one of its timers rings. It always runs in a new isolate, and its random numbers are no secrets.
   */
  readonly deterministic?: { readonly seed: string; readonly now?: number | undefined } | undefined;
  /** What is done with this call's arguments, where the tool would not take them as they are: goes before what its tool and the host state. */
  readonly arguments?: ArgumentOptions | undefined;
  /** Lines of console in the log carry the place in the author's source that they come from; costs some 20 µs a line. */
  readonly logPlaces?: boolean | undefined;
  /**
   * Digest of the tool that the caller was shown or approved, from `router.digestOf`. If the tool has another one when the call starts, the
   * call is not run and fails with APPROVAL_REQUIRED.
   */
  readonly toolDigest?: string | undefined;
}

/** A call as an application asks for it: `id` is made where there is none, and it brings its own time and context along. */
export interface ToolInvocation extends Omit<ToolCall, "id"> {
  readonly id?: string | undefined;
  /** Wall time in ms from the moment that it begins, 1 to 300,000; the lowest of host, tool, context and this wins. */
  readonly timeoutMs?: number | undefined;
  readonly context?: ToolContext | undefined;
}

/** What a call cost. Times in ms; a host function's own cost is not metered, but for its bytes in and out. */
export interface ToolUsage {
  /** CPU time of the tool's isolate. If its process died or did not answer in time: the time that the process had the call, at most the limit. */
  readonly cpuMs: number;
  /** Memory in use by the end of the call: V8 heap and array buffers. */
  readonly heapBytes: number;
  /** By how much the worker process grew at the most while the call ran, as far as it was seen (looked at 50 times a second, on Linux). */
  readonly peakBytes: number;
  /** Waiting for a worker. */
  readonly queueMs: number;
  /** Waiting for the bundler; 0 for a tool that was added before. */
  readonly bundleMs: number;
  /** Making an isolate and loading the bundle into it. */
  readonly startMs: number;
  /** In the tool. */
  readonly executeMs: number;
  readonly logsDropped: number;
  /** Bytes of the arguments that the tool got: their JSON in UTF-8, and bytes in them. 0 for a call that ended before its tool had them. */
  readonly inputBytes: number;
  /** Bytes of the tool's output, its chunks and its content: their JSON in UTF-8, and bytes in them. 0 for a call that failed without chunks. */
  readonly outputBytes: number;
  /**
   * Bytes that the tool's requests (`fetch`) sent: request lines, headers and bodies as they are transferred, those of redirects and of
   * requests that failed included; TLS and TCP not.
   */
  readonly egressBytesOut: number;
  /** Bytes that they received: status lines, headers and bodies as they are transferred, so before they are decoded. */
  readonly egressBytesIn: number;
}

/** A call that a tool made, as far as its caller's result tells of it. What it cost is not in its caller's `usage`. */
export interface NestedCall {
  readonly callId: string;
  readonly toolName: string;
  readonly durationMs: number;
  readonly cpuMs: number;
  /** How it ended. */
  readonly code: "ok" | ErrorCode;
  readonly calls?: readonly NestedCall[];
}

interface ToolResultBase {
  readonly callId: string;
  readonly toolName: string;
  /** From admission to result. */
  readonly durationMs: number;
  readonly usage: ToolUsage;
  readonly logs: readonly LogEntry[];
  /** Calls of other tools that this one made, in the order of their ends; absent where there were none. */
  readonly calls?: readonly NestedCall[];
  /** What was changed in the arguments before the tool had them (see {@link ArgumentOptions}), in that order; absent where nothing was. */
  readonly amendments?: readonly Amendment[];
}

/** The one answer to a call: plain JSON, but for bytes in an output or in content. `toJson` gives what a model is shown of those. */
export type ToolResult =
  | (ToolResultBase & {
      readonly success: true;
      readonly output: ToolValue;
      /** What the tool would have a model see besides, in MCP's words. */
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
