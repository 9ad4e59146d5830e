// Tests glovebox.stream(): chunks as they arrive, then one result; back-pressure, limits, and a reader or a process that ends early.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { StreamedResult, StreamItem, ToolStream } from "../../../src/host/contract/tool-stream.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { STREAM_WINDOW } from "../../../src/sandbox/protocol/guest-messages.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox();
});
afterAll(() => glovebox.close());

let added = 0;
/** Names of tools by their source. Each source is added once. */
const names = new Map<string, Promise<string>>();
function addTool(source: string, definition?: object): Promise<string> {
  const known = definition === undefined ? names.get(source) : undefined;
  const name = known ?? addNew(source, definition);
  if (definition === undefined) names.set(source, name);
  return name;
}
async function addNew(source: string, definition: object = {}): Promise<string> {
  added += 1;
  return (await glovebox.addTool({ name: `tool${added}`, source, overrides: definition })).name;
}

interface Collected {
  readonly values: readonly unknown[];
  readonly result: StreamedResult;
}

/** Returns all chunks of a stream, and its result, which must be the last item. */
async function collect(stream: AsyncIterable<StreamItem>): Promise<Collected> {
  const items: StreamItem[] = [];
  for await (const item of stream) items.push(item);
  const result = items.pop();
  expect(items.every((item) => item.type === "chunk")).toBe(true);
  if (result?.type !== "result") throw new Error("Expected the last item to be the result");
  return { values: items.map((item) => (item.type === "chunk" ? item.value : undefined)), result };
}

const stream = (toolName: string, args: unknown = {}, context: object = {}): ToolStream =>
  glovebox.stream({ id: "c", toolName, arguments: args }, { timeoutMs: 60_000, ...context });

const COUNT = "export default async function* ({ n }) { for (let i = 0; i < n; i += 1) yield { i }; return { n }; }";

describe("glovebox.stream()", () => {
  test("yields the chunks in order, then the result", async () => {
    const { values, result } = await collect(stream(await addTool(COUNT), { n: 3 }));
    expect(values).toEqual([{ i: 0 }, { i: 1 }, { i: 2 }]);
    expect(result).toMatchObject({ type: "result", callId: "c", success: true, output: { n: 3 } });
  });

  test.for([
    ["a tool that yields nothing", "export default () => 7", [], 7],
    ["a generator that returns nothing", "export default async function* () { yield 1; yield 'a'; }", [1, "a"], null],
    ["an empty generator", "export default async function* () {}", [], null],
    [
      "a custom async iterable",
      "export default () => ({ [Symbol.asyncIterator]() { let n = 0; return { next: () => (n += 1) < 3 ? { value: n } : { done: true, value: 'end' } }; } })",
      [1, 2],
      "end",
    ],
    [
      "an async function that returns a generator",
      "export default async () => (async function* () { yield null; })()",
      [null],
      null,
    ],
    ["undefined chunks", "export default async function* () { yield; yield undefined; return 0; }", [null, null], 0],
  ] as const)("%s", async ([, source, chunks, output]) => {
    const { values, result } = await collect(stream(await addTool(source)));
    expect(values).toEqual(chunks);
    expect(outputOf(result)).toEqual(output);
  });

  test("delivers a chunk before the tool yields the next one", async () => {
    const name = await addTool("export default async function* (_, ctx) { yield 1; await new Promise(() => {}); }");
    await using items = stream(name);
    expect(await items.next()).toEqual({ done: false, value: { type: "chunk", value: 1 } });
  });

  test("delivers logs, progress and chunks of one call in order", async () => {
    const source = `export default async function* (_, ctx) {
      for (let i = 1; i <= 3; i += 1) { ctx.progress({ progress: i }); console.log(String(i)); yield i; }
    }`;
    const seen: string[] = [];
    const context = {
      onLog: ({ message }: { message: string }) => seen.push(`log ${message}`),
      onProgress: ({ progress }: { progress: number }) => seen.push(`progress ${progress}`),
    };
    const { result } = await collect(stream(await addTool(source), {}, context));
    expect(seen).toEqual([1, 2, 3].flatMap((n) => [`progress ${n}`, `log ${n}`]));
    expect(result.logs).toHaveLength(3);
  });

  test("serves two readers at once, each with its own call", async () => {
    const name = await addTool(COUNT);
    const [a, b] = await Promise.all([collect(stream(name, { n: 300 })), collect(stream(name, { n: 200 }))]);
    expect(a.values).toEqual(Array.from({ length: 300 }, (_, i) => ({ i })));
    expect(b.values).toHaveLength(200);
  });

  test("returns items in order if several are requested at once", async () => {
    const items = stream(await addTool(COUNT), { n: 2 });
    const received = await Promise.all([items.next(), items.next(), items.next(), items.next()]);
    expect(received.map(({ value }) => value?.type)).toEqual(["chunk", "chunk", "result", undefined]);
    expect(received[3].done).toBe(true);
  });

  test("delivers 2,000 small chunks and several large ones", async () => {
    const many = await collect(stream(await addTool(COUNT), { n: 2_000 }, { timeoutMs: 60_000 }));
    expect(many.values).toHaveLength(2_000);
    expect(many.values[1_999]).toEqual({ i: 1_999 });
    const huge = "export default async function* () { for (let i = 0; i < 3; i += 1) yield 'x'.repeat(2e6); }";
    const { values, result } = await collect(stream(await addTool(huge)));
    expect(values.map((value) => (value as string).length)).toEqual([2e6, 2e6, 2e6]);
    expect(outputOf(result)).toBe(null);
  });

  test("starts the call when the first item is requested", async () => {
    const name = await addTool("let calls = 0; export default async function* () { yield (calls += 1); }");
    const unread = stream(name);
    await unread.return();
    expect(await unread.next()).toEqual({ done: true, value: undefined });
  });
});

describe("back-pressure", () => {
  const ENDLESS = `export default async function* ({ size }, ctx) {
    for (let made = 1; ; made += 1) { ctx.progress({ progress: made }); yield "x".repeat(size); }
  }`;

  test.for([
    [1, STREAM_WINDOW.chunks],
    [100_000, 3],
    [1_000_000, 1],
  ] as const)("a tool with chunks of %d bytes yields at most %d ahead of the reader", async ([size, ahead]) => {
    let made = 0;
    const context = { onProgress: ({ progress }: { progress: number }) => (made = progress) };
    await using items = stream(await addTool(ENDLESS), { size }, context);
    await items.next();
    // The chunk that was read, and those in transit.
    await expect.poll(() => made).toBeGreaterThanOrEqual(Math.min(2, ahead));
    await untilStable(() => made);
    expect(made).toBeLessThanOrEqual(1 + ahead);
    await items.next();
    await untilStable(() => made);
    expect(made).toBeLessThanOrEqual(2 + ahead);
  });

  /** Waits until a number has not changed for 150 ms. */
  async function untilStable(read: () => number): Promise<void> {
    for (let last = -1; last !== read(); ) {
      last = read();
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
  }

  test("a slow reader receives all chunks", async () => {
    const items = stream(await addTool(COUNT), { n: 500 });
    await items.next();
    await new Promise((resolve) => setTimeout(resolve, 200));
    const { values } = await collect(items);
    expect(values).toHaveLength(499);
  });
});

describe("a stream that ends early", () => {
  const ENDLESS =
    "export default async function* (_, ctx) { for (let i = 0; ; i += 1) { ctx.progress({ progress: i }); yield i; } }";

  test("break cancels the call and stops the tool", async () => {
    let made = 0;
    const onProgress = ({ progress }: { progress: number }) => (made = progress);
    for await (const item of stream(await addTool(ENDLESS), {}, { onProgress })) {
      if (item.type === "chunk" && item.value === 200) break;
    }
    const before = made;
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(made).toBe(before);
  });

  test("return() ends a pending next()", async () => {
    const items = stream(await addTool("export default async function* () { await new Promise(() => {}); }"));
    const waiting = items.next();
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await items.return()).toEqual({ done: true, value: undefined });
    const { value } = await waiting;
    expect(value?.type === "result" && codeOf(value)).toBe("CANCELLED");
    expect(await items.throw(new Error("late"))).toEqual({ done: true, value: undefined });
  });

  test.for([
    ["the deadline", ENDLESS, { timeoutMs: 400 }, "TOOL_TIMEOUT"],
    [
      "a generator that throws",
      "export default async function* () { yield 0; throw new TypeError('no more'); }",
      {},
      "TOOL_FAILED",
    ],
    [
      "a chunk that is not JSON",
      "export default async function* () { yield 0; yield () => {}; yield 1; }",
      {},
      "OUTPUT_INVALID",
    ],
    [
      "a chunk with a key __proto__",
      `export default async function* () { yield 0; yield JSON.parse('{"__proto__":1}'); }`,
      {},
      "OUTPUT_INVALID",
    ],
    ["a loop", "export default async function* () { yield 0; await 1; for (;;); }", { timeoutMs: 500 }, "TOOL_TIMEOUT"],
    [
      "memory exhaustion",
      "export default async function* () { yield 0; await 1; for (const all = []; ; ) all.push(new Array(1e5).fill(1)); }",
      {},
      "MEMORY_LIMIT",
    ],
    [
      "an iterator whose next() returns no object",
      "export default () => ({ [Symbol.asyncIterator]: () => ({ n: 0, next() { return this.n++ ? 5 : { value: 0 }; } }) })",
      {},
      "TOOL_FAILED",
    ],
  ] as const)("%s: yields the earlier chunks, then the failure", async ([, source, context, code]) => {
    const tool = await addTool(source);
    // A slow machine may not come to the first chunk in time.
    let end = await collect(stream(tool, {}, context));
    for (
      let timeoutMs = 2_000;
      end.values.length === 0 && "timeoutMs" in context && timeoutMs < 60_000;
      timeoutMs *= 4
    ) {
      end = await collect(stream(tool, {}, { timeoutMs }));
    }
    expect(end.values[0]).toBe(0);
    expect(codeOf(end.result)).toBe(code);
  });

  test("too many bytes in total: OUTPUT_TOO_LARGE, even if each chunk is small", async () => {
    const source = "export default async function* () { for (;;) yield 'x'.repeat(1000); }";
    const name = await addTool(source, { limits: { outputBytes: 10_000 } });
    const { values, result } = await collect(stream(name));
    expect(values).toHaveLength(9);
    expect(codeOf(result)).toBe("OUTPUT_TOO_LARGE");
    expect(codeOf(await glovebox.execute({ id: "c", toolName: name }))).toBe("OUTPUT_TOO_LARGE");
  });

  test("a stream with too many values in total ends with OUTPUT_TOO_LARGE", async () => {
    const name = await addTool(COUNT, { limits: { jsonValues: 100 } });
    const { values, result } = await collect(stream(name, { n: 1_000 }));
    expect(values.length).toBeLessThanOrEqual(100);
    expect(codeOf(result)).toBe("OUTPUT_TOO_LARGE");
  });

  test("the sizes of chunks and output are added", async () => {
    const source = "export default async function* () { yield 'x'.repeat(600); return 'y'.repeat(600); }";
    const { values, result } = await collect(stream(await addTool(source, { limits: { outputBytes: 1_000 } })));
    expect(values).toHaveLength(1);
    expect(codeOf(result)).toBe("OUTPUT_TOO_LARGE");
  });

  test("its process dies: SANDBOX_CRASHED after the earlier chunks, and the call is not repeated", async () => {
    await using own = await makeGlovebox();
    await own.addTool({ name: "endless", source: ENDLESS, overrides: { annotations: { idempotentHint: true } } });
    const items = own.stream({ id: "c", toolName: "endless" }, { timeoutMs: 60_000 });
    expect((await items.next()).value).toEqual({ type: "chunk", value: 0 });
    for (const pid of own.workerPids) process.kill(pid, "SIGKILL");
    const { values, result } = await collect(items);
    expect(values).toEqual(values.map((_, index) => index + 1));
    expect(codeOf(result)).toBe("SANDBOX_CRASHED");
  });

  test("the glovebox closes: CANCELLED", async () => {
    const own = await makeGlovebox();
    await own.addTool({ name: "endless", source: ENDLESS });
    const items = own.stream({ id: "c", toolName: "endless" });
    await items.next();
    await own.close();
    expect(codeOf((await collect(items)).result)).toBe("CANCELLED");
    expect(codeOf((await collect(own.stream({ id: "c", toolName: "endless" }))).result)).toBe("TOOL_UNAVAILABLE");
  });

  test("the caller's own signal ends a stream with CANCELLED", async () => {
    const caller = new AbortController();
    const items = stream(await addTool(ENDLESS), {}, { signal: caller.signal });
    await items.next();
    caller.abort();
    expect(codeOf((await collect(items)).result)).toBe("CANCELLED");
  });

  test.for([
    ["a missing call", undefined, undefined, "PARAM_INVALID"],
    ["an unknown tool", { id: "c", toolName: "none" }, undefined, "TOOL_UNAVAILABLE"],
    ["an invalid context", { id: "c", toolName: "none" }, { signal: 5 }, "PARAM_INVALID"],
  ] as const)("%s: the only item is the failure, and nothing rejects", async ([, call, context, code]) => {
    const { values, result } = await collect(glovebox.stream(call as never, context as never));
    expect(values).toEqual([]);
    expect(codeOf(result)).toBe(code);
  });
});

describe("glovebox.execute() of a tool that streams", () => {
  test.for([
    ["returns its return value", "export default async function* () { yield 1; return 'end'; }", "end"],
    [
      "returns the list of its chunks if it returns nothing",
      "export default async function* () { yield 1; yield [2]; }",
      [1, [2]],
    ],
    [
      "returns each chunk as it was when it was yielded",
      "export default async function* () { const all = []; for (const n of [1, 2]) { all.push(n); yield all; } }",
      [[1], [1, 2]],
    ],
    [
      "runs to its end without a reader",
      "export default async function* () { for (let i = 0; i < 1000; i += 1) yield i; return 'all'; }",
      "all",
    ],
  ] as const)("%s", async ([, source, output]) => {
    expect(outputOf(await glovebox.execute({ id: "c", toolName: await addTool(source) }))).toEqual(output);
  });

  test("validates the return value or the list of chunks against outputSchema", async () => {
    const list = { outputSchema: { type: "array", items: { type: "number" } } };
    const good = await addTool("export default async function* () { yield 1; }", list);
    expect(outputOf(await glovebox.execute({ id: "c", toolName: good }))).toEqual([1]);
    // The chunks were the output, and have been delivered already.
    expect(outputOf((await collect(stream(good))).result)).toBe(null);
    const bad = await addTool("export default async function* () { yield 1; return 'text'; }", list);
    expect(codeOf(await glovebox.execute({ id: "c", toolName: bad }))).toBe("OUTPUT_INVALID");
    expect(codeOf((await collect(stream(bad))).result)).toBe("OUTPUT_INVALID");
  });

  test("runs the generator's finally block if it ends early", async () => {
    const source = `export default async function* () { try { yield 1; yield () => {}; } finally { console.log("cleaned up"); } }`;
    const result = await glovebox.execute({ id: "c", toolName: await addTool(source) });
    expect(codeOf(result)).toBe("OUTPUT_INVALID");
    expect(result.logs.map(({ message }) => message)).toEqual(["cleaned up"]);
  });
});

test("values that a capability has registered as secret are redacted in chunks, bytes and content", async () => {
  const secret = "the-secret-word";
  const reveal = defineCapability({
    name: "reveal",
    inputSchema: {},
    outputSchema: {},
    handler: (_input, { redact }) => {
      redact("WORD", secret);
      return null;
    },
  });
  await using own = await makeGlovebox({ capabilities: [reveal] });
  const source = `import { content, text } from "glovebox/tool";
    export default async function* (_, ctx) {
      await ctx.reveal({});
      const word = ["the", "secret", "word"].join("-");
      yield { word };
      yield Uint8Array.from(word, (each) => each.charCodeAt(0));
      return content([text(word)], [word, Uint8Array.from(word, (each) => each.charCodeAt(0))]);
    }`;
  await own.addTool({ name: "leaks", source }, { grant: ["reveal"] });
  const { values, result } = await collect(own.stream({ id: "c", toolName: "leaks" }, { timeoutMs: 60_000 }));
  expect(result.success).toBe(true);
  const asText = (bytes: unknown): string => Buffer.from(bytes as Uint8Array).toString();
  expect(values[0]).toEqual({ word: "[redacted:WORD]" });
  expect(asText(values[1])).toBe("[redacted:WORD]");
  const { output, content } = result as Extract<StreamedResult, { success: true }>;
  expect(content).toEqual([{ type: "text", text: "[redacted:WORD]" }]);
  expect((output as readonly unknown[]).map((each) => (typeof each === "string" ? each : asText(each)))).toEqual([
    "[redacted:WORD]",
    "[redacted:WORD]",
  ]);
});

describe("host functions that stream", () => {
  test.for([5, undefined, null, "chunk"])("fail if next() returns %j instead of an object", async (step) => {
    const name = `invalid${String(step)}`;
    glovebox.router.register(name, {}, () => ({ [Symbol.asyncIterator]: () => ({ next: () => step }) }));
    const { values, result } = await collect(stream(name));
    expect([values, codeOf(result)]).toEqual([[], "TOOL_FAILED"]);
  });

  test("are read like tools, and stopped when their call ends", async () => {
    let made = 0;
    let isOver = false;
    glovebox.router.register("host-numbers", {}, async function* () {
      try {
        for (;;) {
          made += 1;
          yield { made };
        }
      } finally {
        isOver = true;
      }
    });
    const items = stream("host-numbers");
    expect(await items.next()).toEqual({ done: false, value: { type: "chunk", value: { made: 1 } } });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(made).toBeLessThanOrEqual(STREAM_WINDOW.chunks + 2);
    await items.return();
    await expect.poll(() => isOver).toBe(true);
  });

  test("return their return value, or else their chunks", async () => {
    glovebox.router.register("host-returns", {}, async function* () {
      yield 1;
      return "end";
    });
    glovebox.router.register("host-bare", {}, async function* () {
      yield 1;
      yield new Uint8Array([2]);
    });
    const returns = await collect(stream("host-returns"));
    expect([returns.values, outputOf(returns.result)]).toEqual([[1], "end"]);
    const bare = await collect(stream("host-bare"));
    expect([bare.values, outputOf(bare.result)]).toEqual([[1, new Uint8Array([2])], null]);
    expect(outputOf(await glovebox.execute({ id: "c", toolName: "host-returns" }))).toBe("end");
    expect(outputOf(await glovebox.execute({ id: "c", toolName: "host-bare" }))).toEqual([1, new Uint8Array([2])]);
  });

  test("host functions that fail or exceed a limit end after the earlier chunks", async () => {
    glovebox.router.register("host-fails", {}, async function* () {
      yield 1;
      throw new ToolError("QUOTA_EXCEEDED", "No more today");
    });
    const failed = await collect(stream("host-fails"));
    expect(failed.values).toEqual([1]);
    expect(errorOf(failed.result).code).toBe("QUOTA_EXCEEDED");
    glovebox.router.register("host-large", { limits: { outputBytes: 100 } }, async function* () {
      for (;;) yield "x".repeat(40);
    });
    const large = await collect(stream("host-large"));
    expect(large.values).toHaveLength(2);
    expect(codeOf(large.result)).toBe("OUTPUT_TOO_LARGE");
  });

  test("host functions that hang end at the deadline", async () => {
    glovebox.router.register("host-stuck", {}, async function* () {
      yield 1;
      await new Promise(() => {});
    });
    const { values, result } = await collect(stream("host-stuck", {}, { timeoutMs: 2_000 }));
    expect(values).toEqual([1]);
    expect(codeOf(result)).toBe("TOOL_TIMEOUT");
  });
});
