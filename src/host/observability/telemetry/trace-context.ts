// W3C Trace Context (level 1): parses and writes the two headers that carry a trace across programs.
import type { SpanIdentity } from "./otel-types.ts";

export interface TraceContext {
  /** `00-`, 32 hexadecimal digits of the trace id, `-`, 16 of the span id, `-`, two of flags. */
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
}

/** Future versions may append fields after the flags. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.{0,400})?$/;

/** Longest tracestate that is passed on. The standard requires at least 512; a longer one is dropped. */
export const MAX_STATE_LENGTH = 1_024;

/** Returns undefined for invalid text; the standard then requires a new trace. */
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
