// Spans that tools report of their own work: in real tools, and reports as a compromised worker process could send them.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { TimelineSpan } from "../../../src/host/contract/timeline-span.ts";
import { NO_USAGE, type ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { Timeline } from "../../../src/host/observability/timeline.ts";
import { ToolSpans } from "../../../src/host/observability/tool-spans.ts";
import type { Limits } from "../../../src/sandbox/contract/limits.ts";
import { monotonicMs } from "../../../src/sandbox/contract/monotonic-time.ts";
import { codeOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { withMoreTime } from "../../support/more-time.ts";

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({ cache: false });
});
afterAll(() => glovebox.close());

let count = 0;
async function run(body: string, context: object = {}): Promise<ToolResult> {
  count += 1;
  const name = `spans_${count}`;
  await glovebox.addTool({ name, source: `export default async (_, ctx) => { ${body} }` });
  return await glovebox.execute({ id: "c", toolName: name, arguments: {} }, { timeline: true, ...context });
}
const spansOf = ({ timeline = [] }: ToolResult): readonly TimelineSpan[] =>
  timeline.filter(({ kind }) => kind === "tool");
const executeOf = ({ timeline = [] }: ToolResult): TimelineSpan =>
  timeline.find(({ kind }) => kind === "execute") as TimelineSpan;

describe("ctx.span", () => {
  test("adds spans with names, attributes and outcomes, within the execution of the tool", async () => {
    const result = await run(`
      const sum = ctx.span("add", { rows: 3, big: true, file: "a.csv" }, () => 1 + 2);
      const later = await ctx.span("wait", async () => { await new Promise((resolve) => setTimeout(resolve, 40)); return 4; });
      try { ctx.span("throws", () => { throw new Error("x"); }); } catch {}
      await ctx.span("rejects", () => Promise.reject(new Error("y"))).catch(() => {});
      const thenable = await ctx.span("thenable", () => ({ then: (resolve) => resolve(5) }));
      return [sum, later, thenable];`);
    expect(outputOf(result)).toEqual([3, 4, 5]);
    expect(spansOf(result)).toMatchObject([
      { name: "add", code: "ok", attributes: { rows: 3, big: true, file: "a.csv" } },
      { name: "wait", code: "ok" },
      { name: "throws", code: "TOOL_FAILED" },
      { name: "rejects", code: "TOOL_FAILED" },
      { name: "thenable", code: "ok" },
    ]);
    const { startMs, durationMs } = executeOf(result);
    for (const span of spansOf(result)) {
      expect(span.startMs).toBeGreaterThanOrEqual(startMs - 0.01);
      expect(span.startMs + span.durationMs).toBeLessThanOrEqual(startMs + durationMs + 0.01);
    }
    const wait = spansOf(result)[1] as TimelineSpan;
    expect(wait.durationMs).toBeGreaterThan(30);
  });

  test("rejects arguments of other types", async () => {
    const result = await run(`
      const thrown = [];
      for (const args of [[1, () => 1], ["x"], ["x", 1, () => 1], ["x", { a: {} }, () => 1], ["x", { a: NaN }, () => 1]]) {
        try { ctx.span(...args); thrown.push(undefined); } catch (error) { thrown.push(error.name); }
      }
      return thrown;`);
    expect(outputOf(result)).toEqual(Array(5).fill("TypeError"));
    expect(spansOf(result)).toEqual([]);
  });

  test("shows the span that a call was in when its time was over", async () => {
    await withMoreTime(500, async (timeoutMs) => {
      const result = await run('await ctx.span("hangs", () => new Promise(() => {}));', { timeoutMs });
      expect(codeOf(result)).toBe("TOOL_TIMEOUT");
      expect(spansOf(result)).toMatchObject([{ name: "hangs", code: "TOOL_FAILED" }]);
    });
  });

  test("keeps 1,000 spans of a call, and runs the functions of all", async () => {
    const result = await run(
      "let sum = 0; for (let index = 0; index < 3_000; index += 1) sum += ctx.span('n'.repeat(300), () => 1); return sum;",
    );
    expect(outputOf(result)).toBe(3_000);
    expect(spansOf(result)).toHaveLength(1_000);
    expect(spansOf(result)[0]?.name.length).toBeLessThanOrEqual(201);
  });

  test("works with replaced intrinsics, and costs a call without a timeline nothing", async () => {
    const source = `JSON.stringify = () => "{}"; Object.keys = () => []; Promise.prototype.then = () => {};
      return ctx.span("own", { a: 1 }, () => 2);`;
    const result = await run(source);
    expect(spansOf(result)).toMatchObject([{ name: "own", attributes: { a: 1 } }]);
    expect(await run('return ctx.span("x", () => 7);', { timeline: false })).toMatchObject({
      success: true,
      output: 7,
    });
  });

  test("a measure of the performance timeline is a span", async () => {
    const result = await run(`
      performance.mark("from");
      await new Promise((resolve) => setTimeout(resolve, 50));
      performance.measure("measured", "from");
      performance.measure("from the beginning", { start: 0, duration: 1e15 });
      return 1;`);
    expect(outputOf(result)).toBe(1);
    const [measured] = spansOf(result).filter(({ name }) => name === "measured");
    expect(measured?.durationMs).toBeGreaterThan(30);
    const { startMs, durationMs } = executeOf(result);
    for (const span of spansOf(result))
      expect(span.startMs + span.durationMs).toBeLessThanOrEqual(startMs + durationMs + 0.01);
  });

  test("spans of one call do not appear in the next, and those that a call left behind are ignored", async () => {
    await glovebox.addTool(
      {
        name: "leaves",
        source: `let kept; export default (_, ctx) => { kept?.span("late", () => 1); kept = ctx; return 1; }`,
      },
      { isolateLifetime: "tool" },
    );
    for (let index = 0; index < 3; index += 1) {
      const result = await glovebox.execute({ id: "c", toolName: "leaves" }, { timeline: true });
      expect(spansOf(result)).toEqual([]);
    }
  });
});

describe("reports", () => {
  test.for([
    "",
    "null",
    "[]",
    '{"id":0,"name":"x"}',
    '{"id":1001,"name":"x"}',
    '{"id":1.5,"name":"x"}',
    '{"id":1}',
    '{"id":1,"name":"x","more":1}',
    `{"id":1,"name":"${"x".repeat(201)}"}`,
    '{"id":1,"name":"x","attributes":{"a":{}}}',
    '{"id":1,"name":"x","attributes":{"a":null}}',
    '{"name":"x","agoMs":0,"durationMs":-1}',
    '{"name":"x","agoMs":"0","durationMs":1}',
    '{"id":7,"ok":true}',
  ])("ignores %s", (text) => {
    const spans = new ToolSpans();
    spans.report(1, text);
    expect(spans.within(0, 10)).toEqual([]);
  });

  test("clamps times to the execution, whatever the process says", () => {
    for (const time of [Number.NEGATIVE_INFINITY, -1e300, 0, 1e300, Number.POSITIVE_INFINITY, Number.NaN]) {
      const spans = new ToolSpans();
      spans.report(time, '{"id":1,"name":"x"}');
      spans.report(-time, '{"id":1,"ok":true}');
      spans.report(time, '{"name":"m","agoMs":1e300,"durationMs":1e300}');
      for (const { from, to } of spans.within(5, 10)) {
        expect(from).toBeGreaterThanOrEqual(5);
        expect(to).toBeGreaterThanOrEqual(from);
        expect(to).toBeLessThanOrEqual(10);
      }
    }
  });

  test("keep their length when the host notices the end late", () => {
    /** Returns the length of the span, and how long this has taken. */
    const measure = (): readonly [durationMs: number | undefined, tookMs: number] => {
      const now = performance.now();
      const spans = new ToolSpans();
      const began = monotonicMs();
      spans.report(began, '{"id":1,"name":"x"}');
      spans.report(began + 40, '{"id":1,"ok":true}');
      const timeline = new Timeline(now - 5);
      timeline.executing({ timeoutMs: 1_000, cpuMs: 1_000, memoryMiB: 8 } as Limits);
      timeline.executed({ ...NO_USAGE, executeMs: 41 }, "ok", now + 3_000, spans);
      const own = timeline.end("ok").find(({ kind }) => kind === "tool");
      return [own?.durationMs, performance.now() - now];
    };
    let [durationMs, tookMs] = measure();
    // A pause of the machine would lie between the begin of the span and that of the execution.
    while (tookMs > 1) [durationMs, tookMs] = measure();
    expect(durationMs).toBeGreaterThan(39);
  });

  test("come after the begin of the execution, as uses of capabilities do, when the host notices the end late", () => {
    const timeline = new Timeline(performance.now());
    timeline.executing({ timeoutMs: 1_000, cpuMs: 1_000, memoryMiB: 8 } as Limits);
    timeline.beginCapability("kv").ended("ok");
    // The times of a worker process are its own.
    timeline.executed({ ...NO_USAGE, startMs: 2_000, executeMs: 1 }, "ok", performance.now() + 3_000, undefined);
    const kinds = timeline.end("ok").map(({ kind }) => kind);
    expect(kinds.indexOf("execute")).toBeLessThan(kinds.indexOf("capability"));
  });

  test.for([Number.NEGATIVE_INFINITY, 0, 1e300, Number.POSITIVE_INFINITY, Number.NaN])(
    "cannot move the execution out of the call (time %s)",
    (time) => {
      const now = performance.now();
      const spans = new ToolSpans();
      spans.report(time, '{"id":1,"name":"x"}');
      const timeline = new Timeline(now);
      timeline.executing({ timeoutMs: 1_000, cpuMs: 1_000, memoryMiB: 8 } as Limits);
      timeline.executed({ ...NO_USAGE, executeMs: 1 }, "ok", now + 100, spans);
      const execute = timeline.end("ok").find(({ kind }) => kind === "execute");
      expect(execute?.startMs).toBeGreaterThanOrEqual(0);
      expect((execute?.startMs ?? 0) + (execute?.durationMs ?? 0)).toBeLessThanOrEqual(101);
    },
  );

  test("keeps 1,000 of them, and one for each number", () => {
    const spans = new ToolSpans();
    for (let index = 0; index < 5_000; index += 1) {
      spans.report(1, `{"id":${(index % 1_000) + 1},"name":"x"}`);
      spans.report(1, '{"name":"m","agoMs":0,"durationMs":1}');
    }
    expect(spans.within(0, 1)).toHaveLength(1_000);
  });
});
