// Defines the spans of a call's timeline, as the result contains them.
import type { ErrorCode } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";

/** What a capability was used for. A field is absent if it is unknown or does not apply. */
export interface SpanDetails {
  /** Method of a request, or operation of a `kv` call. */
  readonly operation?: string;
  /** URL of a request without its query, key of a `kv` call, or name of a called tool. At most 500 UTF-16 code units. */
  readonly target?: string;
  /** Status code of a response. */
  readonly status?: number;
  /** Bytes of the request's body. */
  readonly bytesOut?: number;
  /** Bytes of the response's body that the tool has read. */
  readonly bytesIn?: number;
  /** Time in ms until the response's headers. */
  readonly waitMs?: number;
  /** Limits of the call, for its `execute` span. */
  readonly limits?: Pick<Limits, "timeoutMs" | "cpuMs" | "memoryMiB">;
  /** What the tool says about its own span. */
  readonly attributes?: { readonly [name: string]: string | number | boolean };
  /** Id of a nested call, which has a timeline of its own in the result's `calls`. */
  readonly callId?: string;
}

/** A period of a call. Periods of capabilities can overlap. */
export interface TimelineSpan extends SpanDetails {
  /**
   * `validate`: the arguments, the policy and the hooks. `queue`: waiting for a worker process. `start`: creating the isolate. `execute`: the
   * tool's own code. `output`: checking what it returned. `capability`: one use of a capability. `tool`: a span that the tool reports, with
   * `ctx.span` or `performance.measure`.
   */
  readonly kind: "validate" | "queue" | "start" | "execute" | "output" | "capability" | "tool";
  /** Name of the capability or of the tool's span; for other kinds, the kind. */
  readonly name: string;
  /** Start in ms after the call was accepted. */
  readonly startMs: number;
  readonly durationMs: number;
  /** Outcome: "ok" or the code of the error. */
  readonly code: "ok" | ErrorCode;
  /** Set in the timeline of a running call for a period that has not ended: `durationMs` is the time so far, and `code` is "ok". */
  readonly isOpen?: true;
}
