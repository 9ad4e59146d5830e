// W3C Trace Context (level 1): the two headers by which one trace goes through several programs.
import type { SpanIdentity } from "./otel-types.ts";

export interface TraceContext {
  /** `00-` 32 hexadecimal digits of the trace `-` 16 of the span `-` two of flags. */
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
}

/** A version of the future may go on behind the flags. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.{0,400})?$/;

/** The standard's least that must be passed on is 512; longer ones are left out. */
export const MAX_STATE_UNITS = 1_024;

/** Undefined for what is none: then a trace begins anew, as the standard has it. */
export function parseTraceparent(text: string): Pick<SpanIdentity, "traceId" | "spanId" | "traceFlags"> | undefined {
  const [, version, traceId, spanId, flags, more] = TRACEPARENT.exec(text) ?? [];
  if (traceId === undefined || spanId === undefined || (version === "00" && more !== undefined)) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags ?? "0", 16) & 1 };
}

export function toTraceContext({ traceId, spanId, traceFlags, traceState }: SpanIdentity): TraceContext {
  const tracestate = traceState?.serialize() ?? "";
  const flags = traceFlags.toString(16).padStart(2, "0");
  return { traceparent: `00-${traceId}-${spanId}-${flags}`, ...(tracestate === "" ? {} : { tracestate }) };
}
