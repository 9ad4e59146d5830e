// OpenTelemetry: creates a span for each call and for its parts, and records durations, following the GenAI semantic conventions
// (open-telemetry/semantic-conventions-genai, docs/gen-ai: span and metric of `execute_tool`; in development as of 2026).

import { ToolError } from "../../../sandbox/contract/errors.ts";
import { type EgressRule, matchesRule, parseEgressRule } from "../../capabilities/fetch/egress-rules.ts";
import { parseOptions } from "../../config/option-errors.ts";
import type { TenantPolicy } from "../../tenants/tenant-policies.ts";
import { ignoreOutcome } from "../../util/host-callback.ts";
import type { HookCall } from "../hooks/hook-events.ts";
import { TenantRedactors } from "../redaction/tenant-redactors.ts";
import type { ValueRedactor } from "../redaction/value-redactor.ts";
import { CallSpan, toAttributes, toTime } from "./call-span.ts";
import type { SpanAttributes, SpanScope, TelemetryApi, TelemetryHistogram, TelemetryTracer } from "./otel-types.ts";
import { callNow } from "./provider-calls.ts";
import { type TelemetryOptions, TelemetryOptionsSchema } from "./telemetry-options.ts";
import { MAX_STATE_LENGTH, parseTraceparent, type TraceContext } from "./trace-context.ts";

const SCOPE = "glovebox";

const WHERE = "options.telemetry";
/** Histogram buckets of the convention, in seconds. */
const DURATION_BUCKETS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/**
 * Creates the telemetry of a host.
 * @throws {ToolError} PARAM_INVALID for an unknown or invalid option, with its path, for a provider that fails, and if `@opentelemetry/api`
 *   is not installed
 */
export async function createTelemetry(options: true | TelemetryOptions): Promise<Telemetry> {
  const parsed = options === true ? {} : parseOptions<TelemetryOptions>(TelemetryOptionsSchema, options, WHERE);
  let api: TelemetryApi;
  try {
    // The package's types are not used, because programs without the package read the declarations of this module.
    api = (await import("@opentelemetry/api")) as unknown as TelemetryApi;
  } catch (cause) {
    throw new ToolError("PARAM_INVALID", `${WHERE}: The package @opentelemetry/api is not installed`, {
      cause,
    });
  }
  return new Telemetry(api, parsed);
}

/** @throws {ToolError} PARAM_INVALID if the provider throws, or returns an object without the required method */
function createFrom<Created extends object>(
  provider: string,
  method: keyof Created & string,
  create: () => Created,
): Created {
  const path = `${WHERE}.${provider}`;
  let created: Created;
  try {
    created = callNow(create);
    if (typeof created[method] === "function") return created;
  } catch (cause) {
    const reason = Error.isError(cause) ? `: ${cause.message.slice(0, 500)}` : "";
    throw new ToolError("PARAM_INVALID", `${path}: The provider failed${reason}`, { cause });
  }
  throw new ToolError("PARAM_INVALID", `${path}: Expected a provider that creates objects with ${method}()`);
}

export class Telemetry {
  readonly api: TelemetryApi;
  readonly tracer: TelemetryTracer;
  readonly capturesContent: boolean;
  readonly #duration: TelemetryHistogram;
  readonly #propagates: boolean | readonly EgressRule[];
  readonly #redactors: TenantRedactors;

  /** @throws {ToolError} PARAM_INVALID for a provider that fails, and for an invalid rule in `propagate` */
  constructor(api: TelemetryApi, options: TelemetryOptions) {
    const { tracerProvider = api.trace.getTracerProvider(), meterProvider = api.metrics.getMeterProvider() } = options;
    const { captureContent = false, redact = {}, propagate = false } = options;
    this.api = api;
    this.tracer = createFrom<TelemetryTracer>("tracerProvider", "startSpan", () => tracerProvider.getTracer(SCOPE));
    this.#duration = createFrom<TelemetryHistogram>("meterProvider", "record", () =>
      callNow(() => meterProvider.getMeter(SCOPE)).createHistogram("gen_ai.execute_tool.duration", {
        description: "The duration of a single tool execution.",
        unit: "s",
        advice: { explicitBucketBoundaries: DURATION_BUCKETS },
      }),
    );
    this.capturesContent = captureContent;
    this.#redactors = new TenantRedactors(redact);
    this.#propagates = typeof propagate === "boolean" ? propagate : propagate.map(toRule);
  }

  /** Starts the span of a call. @param started time by performance.now() */
  begin(call: HookCall, started: number, given: TraceContext | undefined, isNested: boolean): CallSpan {
    const parent = this.#parentOf(given, isNested);
    const options = { kind: this.api.SpanKind.INTERNAL, startTime: toTime(started), attributes: toAttributes(call) };
    const span = callNow(() => this.tracer.startSpan(`execute_tool ${call.toolName}`, options, parent));
    return new CallSpan(this, span, this.api.trace.setSpan(parent, span));
  }

  #parentOf({ traceparent, tracestate }: TraceContext = {}, isNested: boolean): SpanScope {
    const { api } = this;
    const active = api.context.active();
    const parsed = traceparent === undefined ? undefined : parseTraceparent(traceparent);
    if (parsed === undefined) return active;
    const hasState = tracestate !== undefined && tracestate.length <= MAX_STATE_LENGTH;
    const traceState = hasState ? api.createTraceState(tracestate) : undefined;
    return api.trace.setSpanContext(active, {
      ...parsed,
      isRemote: !isNested,
      ...(traceState === undefined ? {} : { traceState }),
    });
  }

  record(seconds: number, attributes: SpanAttributes, context: SpanScope): void {
    ignoreOutcome(() => this.#duration.record(seconds, attributes, context));
  }

  propagatesTo(url: URL): boolean {
    const rules = this.#propagates;
    return typeof rules === "boolean" ? rules : rules.some((rule) => matchesRule(rule, url));
  }

  redactorOf(tenant: TenantPolicy | undefined): ValueRedactor {
    return this.#redactors.of(tenant);
  }
}

function toRule(text: string): EgressRule {
  const rule = parseEgressRule(text);
  if (rule !== undefined) return rule;
  throw new ToolError(
    "PARAM_INVALID",
    `options.telemetry.propagate: Expected hosts as in egress.allow, got ${JSON.stringify(text.slice(0, 200))}`,
  );
}
