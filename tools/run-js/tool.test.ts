// run-js, in the sandbox: what snippets give, and what they are told when they are wrong.
import { type OpenedTool, openTool } from "glovebox/testing";
import { afterAll, beforeAll, expect, test } from "vitest";

interface Ran {
  readonly result: unknown;
  readonly text?: string;
  readonly console: readonly { readonly level: string; readonly text: string }[];
  readonly consoleDropped?: number;
  readonly error?: {
    readonly name: string;
    readonly message: string;
    readonly line?: number;
    readonly column?: number;
  };
}

let tool: OpenedTool;
beforeAll(async () => {
  tool = await openTool(import.meta.dirname, { grant: ["stringToCode"] });
});
afterAll(() => tool[Symbol.asyncDispose]());
const run = (code: string, input?: unknown): Promise<Ran> =>
  tool.output<Ran>({ code, ...(input === undefined ? {} : { input }) });

test.for<[string, unknown]>([
  ["1 + 1", 2],
  ["const xs = [3, 1, 2];\nxs.toSorted()", [1, 2, 3]],
  ["({ a: 1 })", { a: 1 }],
  ["('x', 'y') // the last one", "y"],
  ["if (input) { return input.n * 2 }\n0", 42],
  ["await new Promise((done) => setTimeout(done, 5));\nawait Promise.resolve('later')", "later"],
  ["let a = 1; a += 1;", 2],
  ["a = 5; a", 5],
  ["'use strict'", "use strict"],
  ["`two`;;", "two"],
  ["function twice(n) { return n * 2 }\ntwice(4)", 8],
  ["const { structuredClone: copy } = globalThis; copy({ deep: [1] })", { deep: [1] }],
  ["new URL('../b', 'https://example.com/x/a').href", "https://example.com/b"],
  ["new Date(0)", "1970-01-01T00:00:00.000Z"],
  ["[...'ab'].map((c) => c.codePointAt(0))", [97, 98]],
  ["const n = 1;", null],
  ["for (const x of [1]) { x }", null],
  ["// nothing but a comment", null],
])("%s gives %j", async ([code, expected]) => {
  expect(await run(code, { n: 21 })).toEqual({ result: expected, console: [] });
});

test.for<[string, string]>([
  ["new Map([[1, { b: 2 }]])", "Map(1) { 1 => { b: 2 } }"],
  ["(x) => x", "[Function (anonymous)]"],
  ["0 / 0", "NaN"],
  ["10n ** 20n", "100000000000000000000n"],
  ["[1, new Set(['a'])]", "[ 1, Set(1) { 'a' } ]"],
  ["const ring = {}; ring.self = ring; ring", "<ref *1> { self: [Circular *1] }"],
])("%s is shown as a console shows it", async ([code, text]) => {
  expect((await run(code)).text).toBe(text);
});

test("what the snippet writes comes in order, with its level", async () => {
  const { console } = await run(
    "console.log('%d items', 2, { a: 1 }); console.warn('w'); console.error(new Map()); console.table([1])",
  );
  expect(console).toEqual([
    { level: "log", text: "2 items { a: 1 }" },
    { level: "warn", text: "w" },
    { level: "error", text: "Map(0) {}" },
  ]);
});

test("a flood of lines is cut, and counted", async () => {
  const ran = await run("for (let i = 0; i < 1000; i++) console.log(i); 'done'");
  expect([ran.result, ran.console.length, ran.consoleDropped]).toEqual(["done", 500, 500]);
});

test.for<[string, object]>([
  ["let q = 1;\nnull.x", { name: "TypeError", line: 2, column: 6 }],
  ["\n\n  missing()", { name: "ReferenceError", message: "missing is not defined", line: 3, column: 3 }],
  [
    "function f() {\n  throw new RangeError('deep');\n}\nf()",
    { name: "RangeError", message: "deep", line: 2, column: 9 },
  ],
  ["let a = ;", { name: "SyntaxError", line: 1, column: 9 }],
  ["let a = 1;\nlet a = 2", { name: "SyntaxError", line: 2, column: 5 }],
  ["import x from 'y'", { name: "SyntaxError", message: expect.stringContaining("imports and exports nothing") }],
  ["await import('node:fs')", { message: expect.any(String) }],
  ["throw { a: 1 }", { name: "Error", message: "Thrown: { a: 1 }" }],
  ["await fetch('https://example.com')", { message: expect.stringContaining("not granted") }],
  ["process.exit(1)", { message: expect.any(String) }],
])("%s: what is wrong, and where", async ([code, error]) => {
  const ran = await run(code);
  expect(ran.result).toBeNull();
  expect(ran.error).toMatchObject(error);
});

test("nothing is kept for the next call, and a prototype that a snippet spoils is its own", async () => {
  await run("globalThis.left = 1; Array.prototype.map = () => 'spoilt'; JSON.stringify = () => '\"forged\"'");
  expect(await run("[typeof left, [1].map((n) => n + 1)]")).toMatchObject({ result: ["undefined", [2]] });
});

test("a loop without end is stopped at its time", async () => {
  const { success, ...rest } = await tool.call({ code: "for (;;);" }, { timeoutMs: 300 });
  expect([success, rest]).toMatchObject([false, { error: { code: "TOOL_TIMEOUT" } }]);
});
