// Stage 4 alone: output text, hostile until it has passed, becomes a ToolResult.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { normalize, parseOutput, toFailure } from "../../../src/host/pipeline/normalize.ts";
import { NO_USAGE } from "../../../src/host/tool-call.ts";
import { type ErrorDetails, ToolError } from "../../../src/sandbox/errors.ts";
import { DEFAULT_LIMITS } from "../../../src/sandbox/limits.ts";
import { errorOf, expectPublishable, outputOf } from "../../support/host-zone.ts";
import { makeTool } from "../../support/registered-tool.ts";

const LIMITS = { ...DEFAULT_LIMITS, outputBytes: 1_000, jsonDepth: 4 };
const facts = () => ({ callId: "c1", toolName: "probe", started: performance.now() });
const normalizeText = (outputText: string | Buffer, outputSchema?: { readonly [keyword: string]: string }) => {
  const tool = makeTool(outputSchema === undefined ? {} : { outputSchema });
  return normalize(facts(), { usage: NO_USAGE, outputText }, tool, LIMITS);
};

describe("normalize()", () => {
  test.for<[string, unknown]>([
    ["null", null],
    ["0", 0],
    ['"text"', "text"],
    ["[]", []],
    ['{"a":[{"b":[]}]}', { a: [{ b: [] }] }],
    ['"\\ud800"', "\ud800"],
    ['{"constructor":1,"toString":2}', { constructor: 1, toString: 2 }],
  ])("makes a success of %s, as text or bytes", ([text, output]) => {
    expect(outputOf(normalizeText(text))).toEqual(output);
    expect(outputOf(normalizeText(Buffer.from(text)))).toEqual(output);
  });

  test("states who was called, how long it took and what it cost", () => {
    const logs = [{ level: "info", time: 1, message: "hi" }] as const;
    const usage = { ...NO_USAGE, cpuMs: 3 };
    const result = normalize({ ...facts(), usage, logs }, { usage: NO_USAGE, outputText: "1" }, makeTool(), LIMITS);
    expect(result).toMatchObject({ success: true, callId: "c1", toolName: "probe", usage, logs });
    expect(result.durationMs).toBeGreaterThanOrEqual(0);
    expectPublishable(result);
  });

  test.for<[string, string | Buffer, string, string]>([
    ["nothing", "", "OUTPUT_INVALID", "The output of probe: expected JSON, got text that is not"],
    ["what is not JSON", "{a:1}", "OUTPUT_INVALID", "The output of probe: expected JSON, got text that is not"],
    ["two values", "1 2", "OUTPUT_INVALID", "The output of probe: expected JSON, got text that is not"],
    ["NaN", "NaN", "OUTPUT_INVALID", "The output of probe: expected JSON, got text that is not"],
    ["too many bytes", `"${"x".repeat(1_000)}"`, "OUTPUT_TOO_LARGE", "at most 1000 bytes of JSON, got 1002"],
    ["too many bytes in UTF-8", `"${"ü".repeat(500)}"`, "OUTPUT_TOO_LARGE", "at most 1000 bytes of JSON, got 1002"],
    ["too many bytes as bytes", Buffer.alloc(1_001, 32), "OUTPUT_TOO_LARGE", "at most 1000 bytes of JSON, got 1001"],
    ["five levels of four", "[[[[[]]]]]", "OUTPUT_INVALID", "nested at most 4 deep"],
    ["a __proto__ key", '{"a":{"__proto__":{}}}', "OUTPUT_INVALID", '"__proto__" is not allowed, at /a/__proto__'],
    ["an escaped one", '{"\\u005f_proto\\u005F_":{}}', "OUTPUT_INVALID", '"__proto__" is not allowed, at /__proto__'],
    [
      "one with a space after it",
      '[{"__proto__" :1}]',
      "OUTPUT_INVALID",
      '"__proto__" is not allowed, at /0/__proto__',
    ],
  ])("makes a failure of %s", ([, text, code, message]) => {
    const error = errorOf(normalizeText(text));
    expect(error.code).toBe(code);
    expect(error.message).toContain(message);
  });

  test.for([
    '{"a":"__proto__"}',
    '["__proto__"]',
    '{"\\"__proto__\\"":1}',
    '{"x__proto__":1,"a":"\\\\","b":"__proto__"}',
    '{"a":"\\\\\\"__proto__\\":"}',
  ])("takes %s: the word is no key there", (text) => {
    expect(outputOf(normalizeText(text))).toEqual(JSON.parse(text));
  });

  test("agrees with the value itself on whether there is a __proto__ key", () => {
    const word = fc.constantFrom("__proto__", '"__proto__":', "\\__proto__", "__proto_", "\u005f_proto__:", "a");
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 3 },
        word,
        fc.array(tie("tree"), { maxLength: 3 }),
        fc.array(fc.tuple(word, tie("tree")), { maxLength: 3 }).map((entries) => Object.fromEntries(entries)),
      ),
    }));
    const hasKey = (value: unknown): boolean =>
      typeof value === "object" &&
      value !== null &&
      (Object.hasOwn(value, "__proto__") || Object.values(value).some(hasKey));
    fc.assert(
      fc.property(tree, fc.boolean(), (value, spaced) => {
        const text = JSON.stringify(value, null, spaced ? 1 : 0);
        const result = normalize(facts(), { usage: NO_USAGE, outputText: text }, makeTool(), DEFAULT_LIMITS);
        expect(result.success).toBe(!hasKey(JSON.parse(text)));
      }),
    );
  });

  test("checks the output against the tool's output schema, and says where it does not fit", () => {
    const error = errorOf(normalizeText('"text"', { type: "number" }));
    expect(error.code).toBe("OUTPUT_INVALID");
    expect(error.message).toMatch(/^The output of probe: at the top: .*number/);
    expect(error.details?.problems).toMatchObject([{ pointer: "", keyword: "type" }]);
  });

  test("makes of any bytes at all one result that is plain JSON", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array({ maxLength: 50 }),
          fc.json().map((json) => Buffer.from(json)),
        ),
        (bytes) => {
          expectPublishable(normalizeText(Buffer.from(bytes)));
        },
      ),
    );
  });

  test("is not stalled by 8 MB that hide one forbidden key", () => {
    const text = `[${"[],".repeat(2_700_000)}{"__proto__":1}]`;
    const began = performance.now();
    JSON.parse(text);
    const parsed = performance.now();
    expect(() => parseOutput(text, makeTool(), DEFAULT_LIMITS)).toThrow("not allowed");
    // A walk over the value took six times as long as JSON.parse.
    expect(performance.now() - parsed).toBeLessThan(3 * (parsed - began) + 100);
  });
});

describe("toFailure()", () => {
  test("makes INTERNAL of what is no ToolError, and keeps its words from the caller", () => {
    const error = errorOf(toFailure(facts(), new Error("ENOENT: /root/.ssh/id_rsa")));
    expect(error).toEqual({
      code: "INTERNAL",
      message: "Glovebox failed while it handled the call",
      userMessage: "Something went wrong while running probe",
      recoverable: true,
    });
  });

  const cyclic: { [key: string]: unknown } = {};
  cyclic.self = cyclic;
  test.for<[string, unknown, unknown]>([
    ["a cycle", cyclic, undefined],
    ["a BigInt", { n: 1n }, undefined],
    ["a field that is undefined", { a: 1, b: undefined }, { a: 1 }],
    ["a date", { at: new Date(0) }, { at: "1970-01-01T00:00:00.000Z" }],
  ])("keeps only what is JSON of details with %s", ([, details, kept]) => {
    const failure = toFailure(facts(), new ToolError("TOOL_FAILED", "x", { details: details as ErrorDetails }));
    expect(errorOf(failure).details).toEqual(kept);
    expectPublishable(failure);
  });

  test("carries a guest's stack as `stack`, and the tool's name in the user's message, `$&` and all", () => {
    const error = new ToolError("TOOL_FAILED", "boom", { guestStack: "Error: boom\n    at tool.ts:1:1" });
    const failure = errorOf(toFailure({ ...facts(), toolName: "$&-tool" }, error));
    expect(failure).toMatchObject({ stack: "Error: boom\n    at tool.ts:1:1", userMessage: "$&-tool failed" });
  });
});
