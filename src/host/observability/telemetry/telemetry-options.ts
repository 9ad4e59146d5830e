// Schema and types of a host's `telemetry` option.
import * as z from "zod";
import { describeKind, strictObject } from "../../../sandbox/contract/plain-object.ts";
import { type RedactOptions, RedactOptionsSchema } from "../redaction/value-redactor.ts";
import type { TelemetryMeterProvider, TelemetryTracerProvider } from "./otel-types.ts";

/** The option `telemetry` of `createGlovebox`: spans and metrics of OpenTelemetry. */
export interface TelemetryOptions {
  /** Creates the spans. @default the global TracerProvider */
  readonly tracerProvider?: TelemetryTracerProvider | undefined;
  /** Creates the metrics. @default the global MeterProvider */
  readonly meterProvider?: TelemetryMeterProvider | undefined;
  /** Adds arguments, results and error messages to spans, redacted. @default false */
  readonly captureContent?: boolean | undefined;
  /** How content is redacted. Configured `secrets` of the host and the tenant are redacted too, if their values are text. */
  readonly redact?: RedactOptions | undefined;
  /**
   * Servers that receive the trace context (`traceparent`, `tracestate`) with a tool's `fetch`: true for every server that the tool may
   * reach, or rules as in `egress.allow`. @default false
   */
  readonly propagate?: boolean | readonly string[] | undefined;
}

const withMethod = <Provider>(method: string): z.ZodType<Provider> =>
  z.custom<Provider>((value) => hasMethod(value, method), {
    error: ({ input }) => `Expected a provider with ${method}(), got ${describeKind(input)}`,
  });

function hasMethod(value: unknown, method: string): boolean {
  if (typeof value !== "object" || value === null) return false;
  try {
    return typeof (value as { readonly [name: string]: unknown })[method] === "function";
  } catch {
    return false;
  }
}

export const TelemetryOptionsSchema = strictObject({
  tracerProvider: withMethod<TelemetryTracerProvider>("getTracer").optional(),
  meterProvider: withMethod<TelemetryMeterProvider>("getMeter").optional(),
  captureContent: z.boolean().optional(),
  redact: RedactOptionsSchema.optional(),
  propagate: z.union([z.boolean(), z.array(z.string())]).optional(),
});
