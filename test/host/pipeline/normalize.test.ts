// Tests stage 4 alone: it converts untrusted output text to a ToolResult.
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { NO_USAGE, type ToolResult } from "../../../src/host/contract/tool-call.ts";
import { SchemaThread } from "../../../src/host/json-schema/worker/schema-thread.ts";
import { normalize, type ResultMetadata, toFailure } from "../../../src/host/pipeline/normalize.ts";
import type { RegisteredTool } from "../../../src/host/routing/registry.ts";
import { type ErrorDetails, ToolError } from "../../../src/sandbox/contract/errors.ts";
import { DEFAULT_LIMITS, type Limits } from "../../../src/sandbox/contract/limits.ts";
import { codeOf, errorOf, expectPublishable, outputOf } from "../../support/host-zone.ts";
import { makeTool } from "../../support/registered-tool.ts";

const LIMITS = { ...DEFAULT_LIMITS, outputBytes: 1_000, jsonDepth: 4, jsonValues: 30 };
const metadata = () => ({ callId: "c1", toolName: "probe", started: performance.now() });
const thread = new SchemaThread();
afterAll(() => thread[Symbol.asyncDispose]());
const { signal } = new AbortController();

/** Returns the result of a small output, which is normalized synchronously. */
function normalizeNow(
  known: ResultMetadata,
  outputText: string | Buffer,
  tool: RegisteredTool,
  limits: Limits,
): ToolResult {
  const result = normalize(known, { usage: NO_USAGE, outputText }, { tool, limits, thread, signal });
  if (result instanceof Promise) throw new Error("Expected a result at once");
  return result;
}
const normalizeText = (outputText: string | Buffer, outputSchema?: { readonly [keyword: string]: string }) => {
  const tool = makeTool(outputSchema === undefined ? {} : { outputSchema });
  return normalizeNow(metadata(), outputText, tool, LIMITS);
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
  ])("returns success for %s, as text or bytes", ([text, output]) => {
    expect(outputOf(normalizeText(text))).toEqual(output);
    expect(outputOf(normalizeText(Buffer.from(text)))).toEqual(output);
  });

  test("returns the tool, the duration and the usage", () => {
    const logs = [{ level: "info", time: 1, message: "hi" }] as const;
    const usage = { ...NO_USAGE, cpuMs: 3 };
    const result = normalizeNow({ ...metadata(), usage, logs }, "1", makeTool(), LIMITS);
    expect(result).toMatchObject({ success: true, callId: "c1", toolName: "probe", usage, logs });
    expect(result.durationMs).toBeGreaterThanOrEqual(0);
    expectPublishable(result);
  });

  test.for<[string, string | Buffer, string, string]>([
    ["empty text", "", "OUTPUT_INVALID", "The output of probe: invalid JSON: unexpected end of input"],
    ["invalid JSON", "{a:1}", "OUTPUT_INVALID", "The output of probe: invalid JSON"],
    ["two values", "1 2", "OUTPUT_INVALID", "The output of probe: invalid JSON"],
    ["NaN", "NaN", "OUTPUT_INVALID", "The output of probe: invalid JSON"],
    ["too many bytes", `"${"x".repeat(1_000)}"`, "OUTPUT_TOO_LARGE", "at most 1000 bytes of JSON, got 1002"],
    ["too many bytes in UTF-8", `"${"ü".repeat(500)}"`, "OUTPUT_TOO_LARGE", "at most 1000 bytes of JSON, got 1002"],
    ["too many bytes in a Buffer", Buffer.alloc(1_001, 32), "OUTPUT_TOO_LARGE", "at most 1000 bytes of JSON, got 1001"],
    ["five levels with a limit of four", "[[[[[]]]]]", "OUTPUT_INVALID", "nested at most 4 deep"],
    [
      "31 values with a limit of 30",
      `[${Array(27).fill(1)}]`,
      "OUTPUT_TOO_LARGE",
      "expected at most 30 JSON values (each key counts as 1, each array and object as 4)",
    ],
    ["31 values including keys", `[{"a":1},${Array(27).fill('"x"')}]`, "OUTPUT_TOO_LARGE", "at most 30 JSON values"],
    ["a __proto__ key", '{"a":{"__proto__":{}}}', "OUTPUT_INVALID", '"__proto__" is not allowed, at /a/__proto__'],
    [
      "an escaped __proto__ key",
      '{"\\u005f_proto\\u005F_":{}}',
      "OUTPUT_INVALID",
      '"__proto__" is not allowed, at /__proto__',
    ],
    [
      "a __proto__ key before a space",
      '[{"__proto__" :1}]',
      "OUTPUT_INVALID",
      '"__proto__" is not allowed, at /0/__proto__',
    ],
  ])("returns a failure for %s", ([, text, code, message]) => {
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
  ])("accepts %s, where __proto__ is not a key", (text) => {
    expect(outputOf(normalizeText(text))).toEqual(JSON.parse(text));
  });

  test("finds a __proto__ key in the text exactly if the value has one", () => {
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
        const result = normalizeNow(metadata(), text, makeTool(), DEFAULT_LIMITS);
        expect(result.success).toBe(!hasKey(JSON.parse(text)));
      }),
    );
  });

  test("counts the values and keys of any output", () => {
    const count = (value: unknown): number => {
      if (typeof value !== "object" || value === null) return 1;
      const keys = Array.isArray(value) ? 0 : Object.keys(value).length;
      return Object.values(value).reduce((sum: number, member) => sum + count(member), 4 + keys);
    };
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), fc.boolean(), (value, spaced) => {
        const text = JSON.stringify(value, null, spaced ? 1 : 0);
        const jsonValues = count(JSON.parse(text));
        const codeAt = (limit: number): string =>
          codeOf(normalizeNow(metadata(), text, makeTool(), { ...DEFAULT_LIMITS, jsonValues: limit }));
        expect(text.includes("__proto__") || codeAt(jsonValues) === "ok").toBe(true);
        expect(codeAt(jsonValues - 1)).toBe("OUTPUT_TOO_LARGE");
      }),
    );
  });

  test("validates the output against the tool's output schema, and names the path of the issue", () => {
    const error = errorOf(normalizeText('"text"', { type: "number" }));
    expect(error.code).toBe("OUTPUT_INVALID");
    expect(error.message).toMatch(/^The output of probe: at the top: .*number/);
    expect(error.details?.problems).toMatchObject([{ pointer: "", keyword: "type" }]);
  });

  test("converts any text to one plain JSON result without changing a prototype", async () => {
    const before = Reflect.ownKeys(Object.prototype).concat(Reflect.ownKeys(Array.prototype));
    const word = fc.constantFrom(
      ...[
        '"__proto__":{"polluted":1}',
        '"constructor":{"prototype":{"polluted":1}}',
        '"\\u005f_proto__":',
        '"a":',
        '"\\ud800"',
        "1",
      ],
      ...["[", "]", "{", "}", ",", ":", '"', "\\", " ", "null", "\u0000", "\ud800", "é", "\u2028"],
    );
    const fragments = fc.array(word, { maxLength: 20 }).map((words) => words.join(""));
    const large = fc.tuple(fc.oneof(fragments, fc.json()), fc.boolean(), fc.integer({ min: 60_000, max: 70_000 }));
    const text = fc.oneof(
      fragments,
      fc.string({ unit: "binary" }),
      fc.json(),
      // Larger than a text that is parsed at once.
      large.map(([inner, list, repeats]) =>
        list ? `[${inner},${"7,".repeat(repeats)}${inner}]` : `{"a":"${"x".repeat(140_000)}","b":${inner}}`,
      ),
    );
    await fc.assert(
      fc.asyncProperty(text, fc.boolean(), async (outputText, asBytes) => {
        const execution = { usage: NO_USAGE, outputText: asBytes ? Buffer.from(outputText) : outputText };
        const result = await normalize(metadata(), execution, {
          tool: makeTool(),
          limits: DEFAULT_LIMITS,
          thread,
          signal,
        });
        expect(JSON.stringify(JSON.parse(JSON.stringify(result)))).toBe(JSON.stringify(result));
        if (!result.success) expectPublishable(result);
        expect(Reflect.get({}, "polluted")).toBeUndefined();
      }),
      { numRuns: 300 },
    );
    expect(Reflect.ownKeys(Object.prototype).concat(Reflect.ownKeys(Array.prototype))).toEqual(before);
  });

  test("converts any bytes to one plain JSON result", () => {
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
});

describe("toFailure()", () => {
  test("converts other errors to INTERNAL without disclosing their messages", () => {
    const error = errorOf(toFailure(metadata(), new Error("ENOENT: /root/.ssh/id_rsa")));
    expect(error).toEqual({
      code: "INTERNAL",
      message: "Glovebox failed while it handled the call",
      userMessage: "Something went wrong while running probe",
      recoverable: true,
      docs: "docs/reference/errors/INTERNAL.md",
    });
  });

  const cyclic: { [key: string]: unknown } = {};
  cyclic.self = cyclic;
  test.for<[string, unknown, unknown]>([
    ["a cycle", cyclic, undefined],
    ["a BigInt", { n: 1n }, undefined],
    ["a field that is undefined", { a: 1, b: undefined }, { a: 1 }],
    ["a date", { at: new Date(0) }, { at: "1970-01-01T00:00:00.000Z" }],
  ])("keeps only the JSON parts of details with %s", ([, details, kept]) => {
    const failure = toFailure(metadata(), new ToolError("TOOL_FAILED", "x", { details: details as ErrorDetails }));
    expect(errorOf(failure).details).toEqual(kept);
    expectPublishable(failure);
  });

  test("returns a guest's stack as `stack`, and names the tool in the user's message, even if its name contains `$&`", () => {
    const error = new ToolError("TOOL_FAILED", "boom", { guestStack: "Error: boom\n    at tool.ts:1:1" });
    const failure = errorOf(toFailure({ ...metadata(), toolName: "$&-tool" }, error));
    expect(failure).toMatchObject({ stack: "Error: boom\n    at tool.ts:1:1", userMessage: "$&-tool failed" });
  });
});
