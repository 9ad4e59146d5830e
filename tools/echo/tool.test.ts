// echo, run in the sandbox: what comes back is what was sent.
import { readFile } from "node:fs/promises";
import { type OpenedTool, openTool } from "glovebox/testing";
import { afterAll, beforeAll, expect, test } from "vitest";

interface Echo {
  readonly parameters: unknown;
  readonly metadata: {
    readonly callId: string;
    readonly tenantId: string;
    readonly receivedAt: string;
    readonly parameterNames: readonly string[];
    readonly parameterCount: number;
    readonly parameterCharacters: number;
  };
}

let tool: OpenedTool;
beforeAll(async () => {
  tool = await openTool(import.meta.dirname);
});
afterAll(() => tool[Symbol.asyncDispose]());

test("echo returns its example unchanged, with the facts of the call", async () => {
  const example: unknown = JSON.parse(await readFile(new URL("example.json", import.meta.url), "utf8"));
  const before = Date.now();
  const { parameters, metadata } = await tool.output<Echo>(example);
  expect(parameters).toEqual(example);
  expect(metadata).toMatchObject({
    tenantId: "default",
    parameterNames: ["greeting", "limit", "nested"],
    parameterCount: 3,
  });
  expect(metadata.callId).toMatch(/^call-\d+$/);
  expect(metadata.parameterCharacters).toBe(JSON.stringify(example).length);
  const receivedAt = Date.parse(metadata.receivedAt);
  expect(receivedAt).toBeGreaterThanOrEqual(before - 1);
  expect(receivedAt).toBeLessThanOrEqual(Date.now() + 1);
});

test.for<[string, object]>([
  ["nothing", {}],
  ["names of Object.prototype", { constructor: 1, toString: "x", hasOwnProperty: null }],
  ["numbers at the edge", { big: 1.7976931348623157e308, small: 5e-324, safe: 9007199254740991, tenth: 0.1 }],
  ["text of every kind", { text: '\u0000\u001f"\\\u2028\ud83d\ude00é中', "": "an empty name" }],
  ["deep nesting", { a: { b: [[[{ c: [[], {}, null] }]]] } }],
])("echo returns %s as sent", async ([, parameters]) => {
  const echo = await tool.output<Echo>(parameters);
  expect(echo.parameters).toEqual(parameters);
  expect(echo.metadata.parameterCount).toBe(Object.keys(parameters).length);
});

test.for<[string, unknown]>([
  ["a list", [1, 2]],
  ["text", "hello"],
  ["null", null],
])("echo rejects %s: parameters are an object", async ([, parameters]) => {
  expect(await tool.failure(parameters)).toMatch(/^PARAM_INVALID/);
});
