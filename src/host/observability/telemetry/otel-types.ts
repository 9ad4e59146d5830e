// Declares the part of OpenTelemetry's API that Glovebox uses. `@opentelemetry/api` is an optional peer dependency, and a program without
// it must compile.

/** Attributes of a span or a measurement. */
export type SpanAttributes = { readonly [name: string]: string | number | boolean | undefined };

/** An OpenTelemetry context, opaque to Glovebox. */
export type SpanScope = object;

export interface SpanIdentity {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
  readonly traceState?: { serialize(): string } | undefined;
}

export interface TelemetrySpan {
  spanContext(): SpanIdentity;
  setAttribute(key: string, value: string | number | boolean): unknown;
  setAttributes(attributes: SpanAttributes): unknown;
  setStatus(status: { readonly code: number; readonly message?: string }): unknown;
  isRecording(): boolean;
  end(endTime?: number): void;
}

export interface TelemetrySpanOptions {
  readonly kind?: number;
  /** Time in ms since 1970. */
  readonly startTime?: number;
  readonly attributes?: SpanAttributes;
}

export interface TelemetryTracer {
  startSpan(name: string, options?: TelemetrySpanOptions, context?: SpanScope): TelemetrySpan;
}

export interface TelemetryHistogram {
  record(value: number, attributes?: SpanAttributes, context?: SpanScope): void;
}

export interface TelemetryMeter {
  createHistogram(
    name: string,
    options?: {
      readonly description?: string;
      readonly unit?: string;
      readonly advice?: { explicitBucketBoundaries?: number[] };
    },
  ): TelemetryHistogram;
}

/** A TracerProvider of the OpenTelemetry API or SDK. */
export interface TelemetryTracerProvider {
  getTracer(name: string, version?: string): TelemetryTracer;
}

/** A MeterProvider of the OpenTelemetry API or SDK. */
export interface TelemetryMeterProvider {
  getMeter(name: string, version?: string): TelemetryMeter;
}

/** The module `@opentelemetry/api`. */
export interface TelemetryApi {
  readonly SpanKind: { readonly INTERNAL: number };
  readonly SpanStatusCode: { readonly ERROR: number };
  readonly context: {
    active(): SpanScope;
    with<Value>(context: SpanScope, run: () => Value): Value;
  };
  readonly trace: {
    getTracerProvider(): TelemetryTracerProvider;
    setSpan(context: SpanScope, span: TelemetrySpan): SpanScope;
    setSpanContext(context: SpanScope, identity: SpanIdentity & { readonly isRemote: boolean }): SpanScope;
  };
  readonly metrics: { getMeterProvider(): TelemetryMeterProvider };
  createTraceState(text: string): { serialize(): string };
}
