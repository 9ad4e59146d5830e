// Tests that no JSON of an output or of arguments blocks the host's event loop.
import { afterAll, describe, expect, test, vi } from "vitest";
import { NO_USAGE, type ToolResult } from "../../../src/host/contract/tool-call.ts";
import { SchemaThread } from "../../../src/host/json-schema/worker/schema-thread.ts";
import { normalize } from "../../../src/host/pipeline/normalize.ts";
import { validateCall } from "../../../src/host/pipeline/validate.ts";
import { MemoryToolRegistry } from "../../../src/host/routing/registry.ts";
import type { JsonSchema } from "../../../src/sandbox/contract/definition.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { DEFAULT_LIMITS, LIMITS, type Limits } from "../../../src/sandbox/contract/limits.ts";
import { codeOf } from "../../support/host-zone.ts";
import { controlHoldMs, expectShortTurns } from "../../support/loop-hold.ts";
import { makeTool } from "../../support/registered-tool.ts";

/** The target is 50 ms. On a busy machine a turn takes longer, and so does the control, so the larger of the two bounds applies. */
const BOUND = { boundMs: 100, share: 0.5 } as const;
const MiB = 1024 * 1024;
const LARGEST: Limits = {
  ...DEFAULT_LIMITS,
  outputBytes: LIMITS.outputBytes.max,
  jsonDepth: LIMITS.jsonDepth.max,
  jsonValues: LIMITS.jsonValues.max,
};

const thread = new SchemaThread();
afterAll(() => thread[Symbol.asyncDispose]());

/** Returns a text of about `bytes` bytes. */
const fill = (head: string, unit: string, tail: string, bytes: number): string =>
  `${head}${unit.repeat(Math.floor((bytes - head.length - tail.length) / unit.length))}${tail}`;
const members = (count: number, keyOf: (index: number) => string | number): string =>
  `{${Array.from({ length: count }, (_, index) => `"${keyOf(index)}":0`).join()}}`;

interface Output {
  readonly outputSchema?: JsonSchema;
  readonly limits?: Limits;
  readonly signal?: AbortSignal;
}
function normalized(
  text: string | Buffer,
  { outputSchema, limits = DEFAULT_LIMITS, signal = new AbortController().signal }: Output = {},
): Promise<ToolResult> | ToolResult {
  const tool = makeTool(outputSchema === undefined ? {} : { outputSchema });
  const metadata = { callId: "c", toolName: "probe", started: performance.now() };
  return normalize(metadata, { usage: NO_USAGE, outputText: text }, { tool, limits, thread, signal });
}

const expectNoHold = <Value>(run: () => Value | Promise<Value>): Promise<Value> => expectShortTurns(run, BOUND);

test("the control blocks the event loop, and a turn longer than the bound fails", async () => {
  expect(await controlHoldMs()).toBeGreaterThan(0);
  const never = { boundMs: 0, share: 0, rounds: 2 };
  await expect(expectShortTurns(() => {}, never)).rejects.toThrow("Held the event loop");
});

describe("normalize() does not block the event loop for", () => {
  test.for<[string, () => string, string]>([
    ["600,000 distinct keys", () => members(600_000, (i) => `key${i}`), "OUTPUT_TOO_LARGE"],
    ["the maximum number of keys in an object", () => members(170_000, (i) => `key${i}`), "ok"],
    ["sparse-looking indexes", () => members(170_000, (i) => 4_294_967_294 - 7 * i), "ok"],
    ["one sparse-looking index", () => `{"4294967294":1,"pad":"${"x".repeat(200_000)}"}`, "ok"],
    ["many [] beyond the limit", () => fill("[", "[],", "0]", 8 * MiB), "OUTPUT_TOO_LARGE"],
    ["the maximum number of []", () => fill("[", "[],", "0]", 937_000), "ok"],
    ["the maximum number of {}", () => fill("[", "{},", "0]", 937_000), "ok"],
    ["small objects", () => `[${fill("", '{"a":1,"b":[2]},', "", 1.4 * MiB)}0]`, "ok"],
    ["depth 1,000", () => fill("[".repeat(1_000), "1,", `1${"]".repeat(1_000)}`, 8 * MiB), "OUTPUT_INVALID"],
    ["deeply nested members", () => fill("", '{"a":', "", 8 * MiB), "OUTPUT_INVALID"],
    ["long numbers", () => fill("[", `0.${"1".repeat(100_000)},`, "1]", 8 * MiB), "ok"],
    ["one number", () => fill("[", "1", "]", 8 * MiB), "OUTPUT_INVALID"],
    ["fractions", () => fill("[", "1.5,", '"x"]', 3_900_000), "ok"],
    ["escaped quotes", () => fill('"', '\\"', '"', 8 * MiB), "ok"],
    ["lone surrogates", () => fill('["', "\\ud800", '"]', 8 * MiB), "ok"],
    ["lone surrogates, each a string", () => fill("[", '"\\ud800",', "0]", 8 * MiB), "ok"],
    ["__proto__ as a value", () => fill("[", '"__proto__",', "0]", 8 * MiB), "ok"],
    ["a __proto__ key at the end", () => fill("[", "[],", '{"__proto__":1}]', 900_000), "OUTPUT_INVALID"],
    ["truncated JSON", () => fill("[", '"some text",', "", 8 * MiB), "OUTPUT_INVALID"],
    ["white space", () => fill("[", " ", "]", 8 * MiB), "OUTPUT_INVALID"],
  ])("%s", async ([, make, code]) => {
    const text = Buffer.from(make());
    expect(codeOf(await expectNoHold(() => normalized(text)))).toBe(code);
  });

  test.for<[string, () => string, string]>([
    ["2 million keys", () => members(2_000_000, (i) => i), "OUTPUT_TOO_LARGE"],
    ["records", () => `[${fill("", '{"id":1,"name":"a name of some length"},', "", 15 * MiB)}0]`, "ok"],
    ["text in UTF-8", () => fill('{"a":"', "é", '"}', 32 * MiB), "ok"],
  ])("the largest output that a host can allow: %s", async ([, make, code]) => {
    const text = Buffer.from(make());
    expect(codeOf(await expectNoHold(() => normalized(text, { limits: LARGEST })))).toBe(code);
  });

  const record = '{"id":1,"name":"a name of some length and then some more"}';
  const records = (): string => fill("[", `${record},`, '{"id":1,"name":"b"}]', 8 * MiB);
  test.for<[string, JsonSchema, () => string, string]>([
    ["matches", { type: "array", items: { type: "object", required: ["id"] } }, records, "ok"],
    [
      "does not match",
      { type: "array", items: { properties: { name: { const: "a name of some length and then some more" } } } },
      records,
      "OUTPUT_INVALID",
    ],
    [
      "requires unique items of",
      { uniqueItems: true },
      () => `[${Array.from({ length: 400_000 }, (_, i) => `{"a":${i}}`)}]`,
      "any",
    ],
    [
      "applies a slow pattern to",
      { items: { pattern: "^(a+)+$" } },
      () => fill("[", `"${"a".repeat(50)}!",`, "1]", 8 * MiB),
      "OUTPUT_INVALID",
    ],
    [
      "applies many branches to",
      { items: { allOf: Array(2_000).fill({ maxProperties: 5 }) } } as JsonSchema,
      records,
      "OUTPUT_INVALID",
    ],
    [
      "counts the keys of",
      { maxProperties: 5 },
      () => members(170_000, (i) => 4_294_967_294 - 7 * i),
      "OUTPUT_INVALID",
    ],
    ["tests one long string of", { minLength: 5_000_000, pattern: "x$" }, () => fill('"', "é", 'x"', 4 * MiB), "any"],
  ])("a schema that %s 8 MiB", async ([, outputSchema, make, code]) => {
    const text = Buffer.from(make());
    // The budget of a check is a CPU time, which a slow machine can use up.
    await vi.waitFor(async () => {
      const value = await expectNoHold(() => normalized(text, { outputSchema }));
      if (code !== "any") expect(codeOf(value)).toBe(code);
    });
  });

  test("many large outputs at once", async () => {
    const text = Buffer.from(fill("[", '{"a":[1,2]},', "0]", MiB));
    const many = () => Promise.all(Array.from({ length: 10 }, () => normalized(text)));
    const results = await expectNoHold(many);
    expect(results.map(codeOf)).toEqual(Array(10).fill("ok"));
  });

  test("an output whose call has no time left", async () => {
    const reason = new ToolError("TOOL_TIMEOUT", "late");
    const result = await normalized(Buffer.from(records()), { signal: AbortSignal.abort(reason) });
    expect(codeOf(result)).toBe("TOOL_TIMEOUT");
  });
});

describe("validateCall() does not block the event loop for", () => {
  const registry = new MemoryToolRegistry();
  registry.add(makeTool({ inputSchema: { type: "object", additionalProperties: { items: { type: "string" } } } }));
  const bounds = { bytes: 8 * MiB, depth: 128, values: 1_000_000 };

  test("8 MiB of arguments, and stops with the call's clock", async () => {
    const args = { list: Array(600_000).fill("some text") };
    let disposed = 0;
    const controller = new AbortController();
    const run = () =>
      validateCall({ callId: "c", toolName: "probe", arguments: args }, { tenantId: "t" }, registry, {
        bounds,
        thread,
        startClock: () => ({
          signal: controller.signal,
          setPaused() {},
          leftMs: 0,
          [Symbol.dispose]: () => disposed++,
        }),
      });
    await vi.waitFor(async () => expect((await expectNoHold(run)).input).toEqual(args));
    const before = disposed;
    controller.abort(new ToolError("CANCELLED", "enough"));
    await expect(run()).rejects.toMatchObject({ code: "CANCELLED" });
    expect(disposed).toBe(before + 1);
  });
});
