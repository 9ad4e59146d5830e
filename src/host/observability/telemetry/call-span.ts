// Spans of a call and of its uses of capabilities, for OpenTelemetry.
import type { ToolDefinition } from "../../../sandbox/contract/definition.ts";
import type { ErrorCode } from "../../../sandbox/contract/errors.ts";
import { scopedContext } from "../../capabilities/call-scope.ts";
import type { CapabilityContext } from "../../capabilities/capability.ts";
import type { ToolResult } from "../../contract/tool-call.ts";
import type { Execution } from "../../executors/execution.ts";
import type { TenantPolicy } from "../../tenants/tenant-policies.ts";
import { ignoreOutcome } from "../../util/host-callback.ts";
import type { HookCall } from "../hooks/hook-events.ts";
import type { ValueRedactor } from "../redaction/value-redactor.ts";
import type { ToolSpan, ToolSpans } from "../tool-spans.ts";
import type { SpanAttributes, SpanScope, TelemetryApi, TelemetrySpan, TelemetryTracer } from "./otel-types.ts";
import { callNow, runWithin } from "./provider-calls.ts";
import { type TraceContext, toTraceContext } from "./trace-context.ts";

/** What spans need of the host's telemetry. */
interface SpanSource {
  readonly api: TelemetryApi;
  readonly tracer: TelemetryTracer;
  /** Whether spans have arguments and results. */
  readonly capturesContent: boolean;
  /** Records the duration of a call. */
  record(seconds: number, attributes: SpanAttributes, context: SpanScope): void;
  /** Whether requests to the URL carry the trace. */
  propagatesTo(url: URL): boolean;
  redactorOf(tenant: TenantPolicy | undefined): ValueRedactor;
}

/** Converts a time of performance.now() to OpenTelemetry's. */
export const toTime = (at: number): number => performance.timeOrigin + at;

/** Longest tool description in a span, in UTF-16 code units. A description can have any length and is sent with every span. */
const MAX_DESCRIPTION_LENGTH = 1_024;

/** Longest arguments and results, in UTF-16 code units, that are redacted and added to a span. */
const MAX_CONTENT_LENGTH = 256 * 1024;

/** The metric's name for all unknown tools: models can invent any number of names. */
const UNKNOWN_TOOL = "_OTHER";

export function toAttributes({ callId, toolName, tenantId, executionId, stepId }: HookCall): SpanAttributes {
  return {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": toolName,
    "gen_ai.tool.call.id": callId,
    "gen_ai.tool.type": "function",
    "glovebox.tenant.id": tenantId,
    "glovebox.execution.id": executionId,
    "glovebox.step.id": stepId,
  };
}

/** The span of one call. */
export class CallSpan {
  readonly #telemetry: SpanSource;
  readonly #span: TelemetrySpan;
  readonly #context: SpanScope;
  readonly traceContext: TraceContext;
  #tenant: TenantPolicy | undefined;
  #toolName: string | undefined;
  #source: string | undefined;
  #executedAt = 0;
  /** Length of the output's text, in UTF-16 code units. */
  #outputLength = 0;

  constructor(telemetry: SpanSource, span: TelemetrySpan, context: SpanScope) {
    this.#telemetry = telemetry;
    this.#span = span;
    this.#context = context;
    this.traceContext = toTraceContext(callNow(() => span.spanContext()));
  }

  /** Runs code with the span as the active one, if the host has a context manager. */
  within<Value>(run: () => Value): Value {
    return runWithin(this.#telemetry.api.context, this.#context, run);
  }

  found({ name, description }: ToolDefinition, source: string, tenant: TenantPolicy): void {
    this.#toolName = name;
    this.#source = source;
    this.#tenant = tenant;
    ignoreOutcome(() =>
      this.#span.setAttributes({
        "gen_ai.tool.description": description.slice(0, MAX_DESCRIPTION_LENGTH),
        "glovebox.tool.source": source,
      }),
    );
  }

  get #capturesContent(): boolean {
    return this.#telemetry.capturesContent && callNow(() => this.#span.isRecording()) === true;
  }

  #toContent(text: string | Buffer): string {
    if (text.length > MAX_CONTENT_LENGTH) return `[${text.length} characters]`;
    return this.#telemetry.redactorOf(this.#tenant).text(text.toString());
  }

  validated(inputText: string | Buffer): void {
    ignoreOutcome(() => {
      if (!this.#capturesContent) return undefined;
      return this.#span.setAttribute("gen_ai.tool.call.arguments", this.#toContent(inputText));
    });
  }

  executing(): void {
    this.#executedAt = performance.now();
  }

  /** Adds spans for queueing, start and execution, after the execution, from the times that the worker process reported. */
  executed(execution: Execution, toolSpans: ToolSpans | undefined): void {
    const { usage } = execution;
    if ("outputText" in execution) this.#outputLength = execution.outputText.length;
    const ended = performance.now();
    const began = this.#executedAt;
    ignoreOutcome(() =>
      this.#span.setAttributes({
        "glovebox.usage.cpu_ms": usage.cpuMs,
        "glovebox.usage.heap_bytes": usage.heapBytes,
        "glovebox.usage.peak_bytes": usage.peakBytes,
        "glovebox.usage.input_bytes": usage.inputBytes,
        "glovebox.usage.output_bytes": usage.outputBytes,
        "glovebox.usage.egress_bytes_out": usage.egressBytesOut,
        "glovebox.usage.egress_bytes_in": usage.egressBytesIn,
      }),
    );
    let at = began;
    if (this.#source === "sandbox" || this.#source === "python") {
      at = this.#addPartSpan("queue", at, Math.min(ended, at + usage.queueMs));
      at = this.#addPartSpan("start", at, Math.min(ended, at + usage.startMs));
    }
    // A call that never got a worker process was queued until its end.
    if (at < ended) this.#addPartSpan("execute", at, ended);
    for (const span of toolSpans?.within(at, ended) ?? []) this.#addToolSpan(span);
  }

  /** Adds a span that the tool has reported. Its name and attributes are the tool's own words. */
  #addToolSpan({ name, from, to, code, attributes = {} }: ToolSpan): void {
    const { api, tracer } = this.#telemetry;
    const own = Object.entries(attributes).map(([key, value]) => [`glovebox.span.${key}`, value] as const);
    const options = {
      startTime: toTime(from),
      attributes: { "glovebox.span.name": name, ...Object.fromEntries(own) },
    };
    ignoreOutcome(() => {
      const span = callNow(() => tracer.startSpan(name, options, this.#context));
      if (code !== "ok") ignoreOutcome(() => span.setStatus({ code: api.SpanStatusCode.ERROR }));
      return span.end(toTime(to));
    });
  }

  #addPartSpan(name: string, from: number, to: number): number {
    ignoreOutcome(() => {
      const span = callNow(() => this.#telemetry.tracer.startSpan(name, { startTime: toTime(from) }, this.#context));
      return span.end(toTime(to));
    });
    return to;
  }

  capability(name: string, context: CapabilityContext): CapabilitySpan {
    const { api, tracer } = this.#telemetry;
    const attributes = { "glovebox.capability.name": name };
    const options = { kind: api.SpanKind.INTERNAL, attributes };
    const span = callNow(() => tracer.startSpan(`capability ${name}`, options, this.#context));
    return new CapabilitySpan(this.#telemetry, span, api.trace.setSpan(this.#context, span), context);
  }

  /** Ends the span. @param started time by performance.now() */
  ended(result: ToolResult, started: number): void {
    const ended = performance.now();
    // Separate calls, so that a provider that fails at one of them still receives the others.
    ignoreOutcome(() => this.#setOutcome(result));
    ignoreOutcome(() => this.#span.end(toTime(ended)));
    const attributes = {
      "gen_ai.tool.name": this.#toolName ?? UNKNOWN_TOOL,
      "gen_ai.tool.type": "function",
      ...(result.success ? {} : { "error.type": result.error.code }),
    };
    this.#telemetry.record((ended - started) / 1_000, attributes, this.#context);
  }

  #setOutcome(result: ToolResult): unknown {
    const span = this.#span;
    if (result.success) {
      if (!this.#capturesContent) return undefined;
      return span.setAttribute("gen_ai.tool.call.result", this.#toOutputContent(result));
    }
    const { code, message, userMessage } = result.error;
    ignoreOutcome(() => span.setAttribute("error.type", code));
    // A message may contain arguments.
    const text = this.#capturesContent ? this.#toContent(message) : userMessage;
    return span.setStatus({ code: this.#telemetry.api.SpanStatusCode.ERROR, message: text });
  }

  #toOutputContent({ output }: Extract<ToolResult, { success: true }>): string {
    if (this.#outputLength > MAX_CONTENT_LENGTH) return `[${this.#outputLength} characters]`;
    const redactor = this.#telemetry.redactorOf(this.#tenant);
    // The redactor replaces bytes by their length.
    return redactor.text(JSON.stringify(redactor.value(output)) ?? "null");
  }
}

/** The span of one capability call. */
export class CapabilitySpan {
  readonly #telemetry: SpanSource;
  readonly #span: TelemetrySpan;
  readonly #active: SpanScope;
  /** The context that the capability receives, including the trace context. */
  readonly context: CapabilityContext;

  constructor(telemetry: SpanSource, span: TelemetrySpan, active: SpanScope, context: CapabilityContext) {
    this.#telemetry = telemetry;
    this.#span = span;
    this.#active = active;
    const trace = toTraceContext(callNow(() => span.spanContext()));
    this.context = scopedContext(context, trace, (url) => (telemetry.propagatesTo(url) ? trace : undefined));
  }

  within<Value>(run: () => Value): Value {
    return runWithin(this.#telemetry.api.context, this.#active, run);
  }

  ended(code: "ok" | ErrorCode): void {
    if (code !== "ok") {
      ignoreOutcome(() => this.#span.setAttribute("error.type", code));
      ignoreOutcome(() => this.#span.setStatus({ code: this.#telemetry.api.SpanStatusCode.ERROR }));
    }
    ignoreOutcome(() => this.#span.end());
  }
}
