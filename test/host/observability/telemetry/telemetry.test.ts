// Telemetry: real spans and metrics of OpenTelemetry's SDK, at an OTLP receiver over HTTP and in memory.
import { createServer, type IncomingHttpHeaders } from "node:http";
import { context, propagation, type Span, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { defineCapability } from "../../../../src/host/capabilities/capability.ts";
import type { ToolResult } from "../../../../src/host/contract/tool-call.ts";
import { createGlovebox } from "../../../../src/host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../../../src/host/glovebox/glovebox.ts";
import { runWithin } from "../../../../src/host/observability/telemetry/provider-calls.ts";
import { createTelemetry } from "../../../../src/host/observability/telemetry/telemetry.ts";
import { ToolRouter } from "../../../../src/host/routing/tool-router.ts";
import { FAILING_CALLBACKS } from "../../../support/failing-callbacks.ts";
import { codeOf, outputOf } from "../../../support/host-zone.ts";
import { type OtlpReceiver, openOtlpReceiver } from "../../../support/otlp-receiver.ts";
import { PATIENT_LIMITS } from "../../../support/patient-limits.ts";
import { watchRejections } from "../../../support/unhandled-rejections.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";
const TRACEPARENT = `00-${TRACE}-${PARENT}-01`;
const SECRET = "correct-horse-battery";

const NAMES = ["queue", "start", "execute"];
const LOOK_UP = defineCapability({
  name: "lookUp",
  inputSchema: { type: "object" },
  outputSchema: {},
  handler: (input, { traceparent }) => {
    if ((input as { readonly fails?: boolean }).fails) throw new Error("broken");
    return { traceparent: traceparent ?? null, active: trace.getActiveSpan()?.spanContext().spanId ?? null };
  },
});

const spans = new InMemorySpanExporter();
const metrics = new InMemoryMetricExporter(0);
/** Requests that the tool's server received. */
const requests: IncomingHttpHeaders[] = [];
const server = createServer((request, response) => {
  requests.push(request.headers);
  if (request.url === "/redirect") response.writeHead(302, { location: `http://localhost:${portOf()}/` });
  response.end("{}");
});
const portOf = (): number => (server.address() as { readonly port: number }).port;

let receiver: OtlpReceiver;
let tracerProvider: TracerProvider;
let meterProvider: MeterProvider;
let glovebox: Glovebox;

beforeAll(async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  receiver = await openOtlpReceiver();
  const resource = resourceFromAttributes({ "service.name": "glovebox-test" });
  const exporter = new OTLPTraceExporter({ url: `${receiver.url}/v1/traces` });
  tracerProvider = new TracerProvider({
    resource,
    spanProcessors: [new SimpleSpanProcessor({ exporter: spans }), new SimpleSpanProcessor({ exporter })],
  });
  meterProvider = new MeterProvider({
    resource,
    readers: [
      new PeriodicExportingMetricReader({
        exporter: new OTLPMetricExporter({ url: `${receiver.url}/v1/metrics` }),
        exportIntervalMillis: 3_600_000,
      }),
      new PeriodicExportingMetricReader({ exporter: metrics, exportIntervalMillis: 3_600_000 }),
    ],
  });
  glovebox = await createGlovebox({
    limits: PATIENT_LIMITS,
    telemetry: { tracerProvider, meterProvider, captureContent: true, propagate: [`127.0.0.1:${portOf()}`] },
    capabilities: [LOOK_UP],
    egress: {
      allow: ["127.0.0.1", "localhost"].map((name) => ({ to: `http://${name}:${portOf()}`, addresses: ["127.0.0.1"] })),
    },
    secrets: { KEY: { value: SECRET, hosts: [`http://127.0.0.1:${portOf()}`] } },
    cache: false,
  });
  await glovebox.addTool(
    { name: "ask", source: "export default (input, ctx) => ctx.lookUp(input)" },
    { grant: ["lookUp"] },
  );
  await glovebox.addTool(
    { name: "outer", source: "export default (input, { tools }) => tools.ask(input)" },
    { grant: ["tools"] },
  );
  await glovebox.addTool({ name: "spin", source: "export default () => { for (;;) {} }" });
  await glovebox.addTool(
    {
      name: "send",
      source: "export default async ({ url }) => (await fetch(url, { headers: { traceparent: 'mine' } })).status",
    },
    { grant: ["fetch"] },
  );
  glovebox.router.register("echo", { description: "Gives back" }, (input, { traceparent }) => ({
    input,
    traceparent: traceparent ?? null,
    active: trace.getActiveSpan()?.spanContext().spanId ?? null,
  }));
});
afterAll(async () => {
  await glovebox.close();
  await tracerProvider.shutdown();
  await meterProvider.shutdown();
  await receiver[Symbol.asyncDispose]();
  server.close();
  context.disable();
});
beforeEach(() => {
  spans.reset();
  requests.length = 0;
});

const run = (toolName: string, args: unknown = {}, more: object = {}): Promise<ToolResult> =>
  glovebox.execute({ id: "c1", toolName, arguments: args }, { traceparent: TRACEPARENT, ...more });
const named = (name: string): ReadableSpan[] => spans.getFinishedSpans().filter((span) => span.name === name);
function only(name: string): ReadableSpan {
  const found = named(name);
  expect(found.map((span) => span.name)).toEqual([name]);
  return found[0] as ReadableSpan;
}
const idOf = (span: Pick<ReadableSpan, "spanContext">): string => span.spanContext().spanId;
const timeOf = ([seconds, nanos]: readonly [number, number]): number => seconds * 1e3 + nanos / 1e6;

describe("spans and metrics", () => {
  test("arrive at an OTLP receiver with the conventions' names", async () => {
    const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
    const made = await run(
      "outer",
      { sku: "A1" },
      { traceparent: `00-${traceId}-${PARENT}-01`, executionId: "e1", stepId: "s1" },
    );
    expect(made.success).toBe(true);
    expect(codeOf(await run("outer", { fails: true }))).toBe("TOOL_FAILED");
    await tracerProvider.forceFlush();
    await meterProvider.forceFlush();
    const arrived = await receiver.spans(traceId);
    const outer = arrived.get("execute_tool outer");
    expect(outer).toMatchObject({
      serviceName: "glovebox-test",
      parentSpanId: PARENT,
      hasError: false,
      tags: {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "outer",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "glovebox.tenant.id": "default",
        "glovebox.execution.id": "e1",
        "glovebox.step.id": "s1",
        "glovebox.tool.source": "sandbox",
        "gen_ai.tool.call.arguments": '{"sku":"A1"}',
      },
    });
    const capability = arrived.get("capability tools");
    const inner = arrived.get("execute_tool ask");
    expect(capability?.parentSpanId).toBe(outer?.spanId);
    expect(inner?.parentSpanId).toBe(capability?.spanId);
    expect(arrived.get("capability lookUp")?.parentSpanId).toBe(inner?.spanId);
    expect([...arrived.keys()]).toEqual(expect.arrayContaining(NAMES));
    const series = await receiver.metric("gen_ai.execute_tool.duration");
    expect(
      series.map(({ unit, attributes }) => [unit, attributes?.["gen_ai.tool.name"], attributes?.["error.type"]]),
    ).toEqual(
      expect.arrayContaining([
        ["s", "outer", undefined],
        ["s", "ask", undefined],
        ["s", "outer", "TOOL_FAILED"],
      ]),
    );
  });

  test("have the convention's buckets and the span's duration", async () => {
    metrics.reset();
    await run("echo");
    await meterProvider.forceFlush();
    const data = metrics.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
    const found = data.find(({ descriptor }) => descriptor.name === "gen_ai.execute_tool.duration");
    expect(found?.descriptor).toMatchObject({ unit: "s" });
    const point = found?.dataPoints.find(({ attributes }) => attributes["gen_ai.tool.name"] === "echo");
    const value = point?.value as {
      readonly buckets: { readonly boundaries: readonly number[] };
      readonly sum: number;
    };
    expect(value.buckets.boundaries).toEqual([
      0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
    ]);
    const { startTime, endTime } = only("execute_tool echo");
    expect(value.sum * 1_000).toBeCloseTo(timeOf(endTime) - timeOf(startTime), 0);
  });

  test("have consecutive parts within the call", async () => {
    await run("ask");
    const call = only("execute_tool ask");
    const parts = NAMES.map(only);
    let at = timeOf(call.startTime);
    for (const part of parts) {
      expect(part.parentSpanContext?.spanId).toBe(idOf(call));
      expect(timeOf(part.startTime)).toBeGreaterThanOrEqual(at - 0.01);
      at = timeOf(part.endTime);
    }
    expect(at).toBeLessThanOrEqual(timeOf(call.endTime) + 0.01);
  });

  test.for<[string, () => Promise<ToolResult>, string]>([
    ["invalid arguments", () => glovebox.execute({ id: "c1", toolName: "echo", arguments: 5 }), "PARAM_INVALID"],
    ["a timeout", () => run("spin", {}, { timeoutMs: 100 }), "TOOL_TIMEOUT"],
    ["an unknown tool", () => run("made-up"), "TOOL_UNAVAILABLE"],
    ["an invalid call", () => glovebox.execute({ id: "c1" } as never), "PARAM_INVALID"],
  ])("have the error code for %s", async ([, call, code]) => {
    expect(codeOf(await call())).toBe(code);
    const [span] = spans.getFinishedSpans().filter(({ name }) => name.startsWith("execute_tool"));
    expect(span).toMatchObject({ attributes: { "error.type": code }, status: { code: 2 } });
  });

  test("do not use invented tool names as a dimension of the metric", async () => {
    metrics.reset();
    await run("made-up-1");
    await run("made-up-2");
    await meterProvider.forceFlush();
    const text = JSON.stringify(metrics.getMetrics().map(({ scopeMetrics }) => scopeMetrics));
    expect(text).toContain('"gen_ai.tool.name":"_OTHER"');
    expect(text).not.toContain("made-up");
  });
});

describe("the trace of a call", () => {
  test("comes from its context, and is passed on to host functions and capabilities", async () => {
    const echoed = outputOf(await run("echo")) as { readonly traceparent: string; readonly active: string };
    const call = only("execute_tool echo");
    expect(call.spanContext().traceId).toBe(TRACE);
    expect(call.parentSpanContext).toMatchObject({ spanId: PARENT, isRemote: true });
    expect(echoed).toMatchObject({ traceparent: `00-${TRACE}-${idOf(call)}-01`, active: idOf(call) });
    const asked = outputOf(await run("ask")) as { readonly traceparent: string; readonly active: string };
    const capability = only("capability lookUp");
    expect(asked).toEqual({ traceparent: `00-${TRACE}-${idOf(capability)}-01`, active: idOf(capability) });
  });

  test("keeps its state", async () => {
    const { state } = outputOf(await run("echo", {}, { tracestate: "vendor=1,other=2" })) as {
      readonly state?: string;
    };
    expect(state).toBeUndefined();
    expect(only("execute_tool echo").spanContext().traceState?.serialize()).toBe("vendor=1,other=2");
  });

  test("is the active one if its context has no valid trace", async () => {
    const active = tracerProvider.getTracer("test").startSpan("caller");
    for (const traceparent of [
      undefined,
      "",
      "garbage",
      "0".repeat(100_000),
      `00-${"0".repeat(32)}-${PARENT}-01`,
      `ff-${TRACE}-${PARENT}-01`,
      `${TRACEPARENT}-more`,
    ]) {
      spans.reset();
      await within(active, () => run("echo", {}, { traceparent }));
      expect(only("execute_tool echo").parentSpanContext?.spanId).toBe(idOf(active));
    }
    active.end();
  });

  test.for([5, {}, null])("is rejected if it is not a string: %j", async (traceparent) => {
    expect(codeOf(await run("echo", {}, { traceparent }))).toBe("PARAM_INVALID");
  });

  test("is sent only to servers that the host names, also after a redirect", async () => {
    const { port } = { port: portOf() };
    expect(outputOf(await run("send", { url: `http://127.0.0.1:${port}/` }))).toBe(200);
    expect(outputOf(await run("send", { url: `http://localhost:${port}/` }))).toBe(200);
    expect(outputOf(await run("send", { url: `http://127.0.0.1:${port}/redirect` }))).toBe(200);
    const [named1, other, redirecting, redirected] = requests.map(({ traceparent }) => traceparent);
    expect(requests).toHaveLength(4);
    const [first] = named("capability fetch");
    expect(named1).toBe(`00-${TRACE}-${idOf(first as ReadableSpan)}-01`);
    expect([other, redirected]).toEqual(["mine", "mine"]);
    expect(redirecting).toMatch(new RegExp(`^00-${TRACE}-`));
  });
});

function within<Value>(span: Span, run: () => Value): Value {
  return context.with(trace.setSpan(context.active(), span), run);
}

describe("content", () => {
  test("is in spans, redacted by names, patterns and the host's secrets", async () => {
    await run("echo", { apiKey: "k-1", note: `say ${SECRET}`, text: "plain" });
    const { attributes } = only("execute_tool echo");
    expect(attributes["gen_ai.tool.call.arguments"]).toBe(
      '{"apiKey":"[redacted]","note":"say [redacted:KEY]","text":"plain"}',
    );
    expect(attributes["gen_ai.tool.call.result"]).toContain('"apiKey":"[redacted]"');
    expect(JSON.stringify(spans.getFinishedSpans().map((span) => span.attributes))).not.toContain(SECRET);
  });

  test("is truncated if it is long, and replaced by its length if it is large", async () => {
    await run("echo", { text: "x".repeat(20_000) });
    expect(String(only("execute_tool echo").attributes["gen_ai.tool.call.arguments"])).toMatch(
      /… \[20011 characters\]$/,
    );
    spans.reset();
    await run("echo", { text: "x".repeat(600_000) });
    expect(only("execute_tool echo").attributes["gen_ai.tool.call.arguments"]).toBe("[600011 characters]");
  });

  test("replaces bytes by their length", async () => {
    await run("echo", { data: new TextEncoder().encode("private bytes") });
    const { attributes } = only("execute_tool echo");
    expect(attributes["gen_ai.tool.call.result"]).toContain('"data":"[13 bytes]"');
    expect(JSON.stringify(attributes)).not.toContain(btoa("private bytes"));
  });

  test("is absent from spans and error messages by default", async () => {
    await using quiet = await createGlovebox({
      telemetry: { tracerProvider },
      cache: false,
      workers: { warmProcesses: 0 },
    });
    quiet.router.register(
      "sum",
      { inputSchema: { type: "object", properties: { n: { type: "number" } } } },
      () => "private-output",
    );
    const call = (n: unknown): Promise<ToolResult> => quiet.execute({ id: "c1", toolName: "sum", arguments: { n } });
    await call(1);
    await call("private-input");
    const text = JSON.stringify(
      spans.getFinishedSpans().map(({ attributes, status, events }) => ({ attributes, status, events })),
    );
    expect(named("execute_tool sum")).toHaveLength(2);
    expect(text).not.toContain("private");
    expect(text).toContain("PARAM_INVALID");
  });

  test("is not created for spans that are not sampled", async () => {
    const unsampled = `00-${TRACE}-${PARENT}-00`;
    expect((await run("echo", { a: 1 }, { traceparent: unsampled })).success).toBe(true);
    expect(named("execute_tool echo")).toEqual([]);
  });
});

describe("telemetry as an option", () => {
  const broken = (): never => {
    throw new Error("broken");
  };
  const halfBroken = {
    spanContext: () => ({ traceId: TRACE, spanId: PARENT, traceFlags: 1 }),
    isRecording: () => true,
  };
  test.for<[string, () => unknown]>([
    ["no tracer", broken],
    ["no span", () => ({ startSpan: broken })],
    ["spans that throw", () => ({ startSpan: () => new Proxy({}, { get: broken }) })],
    ["spans with failing methods", () => ({ startSpan: () => halfBroken })],
  ])("a provider that returns %s does not fail a call", async ([, getTracer]) => {
    const options = { tracerProvider: { getTracer }, captureContent: true } as never;
    const opening = createGlovebox({ telemetry: options, cache: false, workers: { warmProcesses: 0 } });
    if (getTracer === broken) return await expect(opening).rejects.toThrow("broken");
    await using ours = await opening;
    ours.router.register("one", {}, () => 1);
    expect(outputOf(await ours.execute({ id: "c1", toolName: "one" }))).toBe(1);
    expect(codeOf(await ours.execute({ id: "c2", toolName: "none" }))).toBe("TOOL_UNAVAILABLE");
    expect(codeOf(await ours.execute(null as never))).toBe("PARAM_INVALID");
    return undefined;
  });

  const METHODS = ["setAttribute", "setAttributes", "setStatus", "end", "isRecording", "spanContext"] as const;
  test.for(METHODS.flatMap((method) => FAILING_CALLBACKS.map(([name, run]) => [method, name, run] as const)))(
    "a span whose %s %s does not fail a call or end the process",
    async ([method, , run]) => {
      const rejections = watchRejections();
      const span = Object.fromEntries(METHODS.map((one) => [one, () => undefined]));
      const startSpan = () => ({ ...span, ...halfBroken, [method]: run });
      const options = { tracerProvider: { getTracer: () => ({ startSpan }) }, captureContent: true };
      const router = new ToolRouter({ telemetry: await createTelemetry(options as never) });
      router.register("one", {}, () => 1);
      router.register("broken", {}, broken);
      expect(outputOf(await router.execute({ id: "c1", toolName: "one" }))).toBe(1);
      expect(codeOf(await router.execute({ id: "c2", toolName: "broken" }))).toBe("TOOL_FAILED");
      expect(await rejections()).toEqual([]);
    },
  );

  test.for(FAILING_CALLBACKS)("providers whose startSpan and record %s do not fail a call", async ([, run]) => {
    const rejections = watchRejections();
    const telemetry = await createTelemetry({
      tracerProvider: { getTracer: () => ({ startSpan: run }) },
      meterProvider: { getMeter: () => ({ createHistogram: () => ({ record: run }) }) },
    } as never);
    const router = new ToolRouter({ telemetry });
    router.register("one", {}, () => 1);
    expect(outputOf(await router.execute({ id: "c1", toolName: "one" }))).toBe(1);
    expect(await rejections()).toEqual([]);
  });

  test.for<[string, object, string]>([
    ...FAILING_CALLBACKS.map(([name, getTracer]): [string, object, string] => [
      `getTracer ${name}`,
      { tracerProvider: { getTracer } },
      "tracerProvider",
    ]),
    ...FAILING_CALLBACKS.map(([name, getMeter]): [string, object, string] => [
      `getMeter ${name}`,
      { meterProvider: { getMeter } },
      "meterProvider",
    ]),
    ["getTracer returns undefined", { tracerProvider: { getTracer: () => undefined } }, "tracerProvider"],
    ["getTracer returns an invalid tracer", { tracerProvider: { getTracer: () => ({}) } }, "tracerProvider"],
    [
      "createHistogram returns none",
      { meterProvider: { getMeter: () => ({ createHistogram: () => 1 }) } },
      "meterProvider",
    ],
  ])("is rejected if %s", async ([, telemetry, path]) => {
    const rejections = watchRejections();
    await expect(createTelemetry(telemetry)).rejects.toMatchObject({
      code: "PARAM_INVALID",
      message: expect.stringContaining(`options.telemetry.${path}: `),
    });
    expect(await rejections()).toEqual([]);
  });

  test.for<[string, (...args: readonly unknown[]) => unknown]>([
    ["throws", broken],
    ["rejects", async () => broken()],
    ["does not run its callback", () => undefined],
    ["runs it twice", (_, run) => [(run as () => unknown)(), (run as () => unknown)()]],
    [
      "runs it and throws",
      (_, run) => {
        (run as () => unknown)();
        broken();
      },
    ],
  ])("a context manager that %s runs a tool once", async ([, run]) => {
    const rejections = watchRejections();
    let runs = 0;
    const work = (): string => {
      runs += 1;
      return "done";
    };
    expect(runWithin({ with: run as never }, context.active(), work)).toBe("done");
    expect(runs).toBe(1);
    expect(() => runWithin({ with: run as never }, context.active(), broken)).toThrow("broken");
    expect(await rejections()).toEqual([]);
  });

  test("true uses the global providers, even if they are registered later", async () => {
    const routerGlovebox = await createGlovebox({ telemetry: true, cache: false, workers: { warmProcesses: 0 } });
    try {
      trace.setGlobalTracerProvider(tracerProvider);
      routerGlovebox.router.register("global", {}, () => 1);
      await routerGlovebox.execute({ id: "c1", toolName: "global" });
      expect(only("execute_tool global").attributes["gen_ai.tool.call.id"]).toBe("c1");
    } finally {
      trace.disable();
      propagation.disable();
      await routerGlovebox.close();
    }
  });

  test.for<[string, unknown, RegExp]>([
    ["a string", "yes", /options\.telemetry: Expected true or/],
    ["an invalid provider", { tracerProvider: {} }, /options\.telemetry/],
    ["an invalid rule", { propagate: ["http://"] }, /telemetry\.propagate/],
    [
      "an unknown key",
      { traceProvider: {} },
      /options\.telemetry\.traceProvider: Unknown option. Did you mean "tracerProvider"/,
    ],
    ["text as captureContent", { captureContent: "false" }, /options\.telemetry\.captureContent/],
    ["a promise", Promise.resolve({}), /options\.telemetry: /],
    ["invalid redaction options", { redact: { maxDepth: 0 } }, /^options\.telemetry\.redact\.maxDepth: /],
  ])("is rejected for %s", async ([, telemetry, message]) => {
    await expect(createGlovebox({ telemetry: telemetry as never, cache: false })).rejects.toThrow(message);
  });
});
