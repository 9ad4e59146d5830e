// Invalid inputs to the public API: each fails with exactly one error that has the right code, states what was wrong, where, and what is
// expected, and discloses nothing about this machine.
import { mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createGlovebox } from "../../../src/host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import type { ErrorCode, ToolError } from "../../../src/sandbox/contract/errors.ts";
import { codeOf, errorOf, expectPublishable, failureOf, makeGlovebox } from "../../support/host-zone.ts";

let glovebox: Glovebox;
const folder = mkdtempSync(join(tmpdir(), "glovebox-bad-inputs-"));

/** Valid tools that are called with invalid inputs or return invalid outputs. */
const TOOLS: readonly (readonly [name: string, source: string])[] = [
  [
    "strict",
    `export const inputSchema = { type: "object", properties: { a: { type: "number", minimum: 0 }, when: { type: "string", format: "date" },
       tags: { type: "array", items: { type: "string" }, maxItems: 2 } }, required: ["a"], additionalProperties: false };
     export default ({ a }) => a;`,
  ],
  [
    "zodded",
    `import { z } from "zod"; import { defineTool } from "glovebox/tool";
     export default defineTool({ description: "", inputSchema: z.strictObject({ n: z.number().refine((n) => n % 2 === 0, "Expected an even number") }),
       outputSchema: z.object({ sum: z.number() }), execute: ({ n }) => (n > 10 ? { sum: "no number" } as never : { sum: n }) });`,
  ],
  [
    "shaped",
    `export const outputSchema = { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] };
     export default ({ output }) => output;`,
  ],
  [
    "odd",
    `class Point { get x() { throw new Error("no x"); } }
     const cyclic = { list: [] }; cyclic.list.push({ cyclic });
     const ANSWERS = {
       function: () => () => 1, symbol: () => Symbol("s"), bigint: () => 5n, inner: () => ({ list: [1, { n: 5n }] }), cyclic: () => cyclic,
       toJSON: () => ({ toJSON() { throw new Error("no JSON of me"); } }), getter: () => ({ get x() { throw new Error("no x"); } }),
       empty: () => ({ toJSON: () => undefined }), proto: () => JSON.parse('{"a":{"__proto__":1}}'), large: () => "x".repeat(3_000_000),
       deep: () => { let deep = 0; for (let i = 0; i < 500; i += 1) deep = [deep]; return deep; },
       error: () => { throw new TypeError("Expected a city, got 5"); }, coded: () => { throw Object.assign(new Error("gone"), { code: "ENOENT" }); },
       text: () => { throw "just text"; }, nothing: () => { throw undefined; }, object: () => { throw { reason: 5 }; }, number: () => { throw 42; },
       frozen: () => { throw Object.freeze(new Error("frozen")); }, forged: () => { throw Object.assign(new Error("no"), { code: "CAPABILITY_DENIED" }); },
       trap: () => { throw new Proxy(new Error("x"), { get() { throw new Error("in a trap"); } }); },
       async: async () => { await null; throw new Error("later"); }, reject: () => Promise.reject(new RangeError("out of range")),
       never: () => new Promise(() => {}), loop: () => { for (;;); }, memory: () => { const all = []; for (;;) all.push(new Array(1e5).fill(1.5)); },
       denied: (ctx) => ctx.mail({ to: "x" }),
     };
     export const capabilities = { mail: true };
     export default ({ answer }, ctx) => ANSWERS[answer](ctx);`,
  ],
];

beforeAll(async () => {
  glovebox = await makeGlovebox({
    limits: { timeoutMs: 120_000, memoryMiB: 64, outputBytes: 1_000_000, inputBytes: 100_000 },
  });
  await Promise.all(TOOLS.map(([name, source]) => glovebox.addTool({ name, source })));
});
afterAll(async () => {
  await glovebox.close();
  await rm(folder, { recursive: true, force: true });
});

describe("Glovebox.execute() with an invalid call", () => {
  const cyclic: { self?: unknown } = {};
  cyclic.self = cyclic;
  const call = (args: unknown, toolName = "strict"): object => ({ id: "c1", toolName, arguments: args });

  test.for<[string, unknown, ErrorCode, RegExp]>([
    [
      "undefined",
      undefined,
      "PARAM_INVALID",
      /^toolCall: expected an object \{ id, toolName, arguments \}, got nothing$/,
    ],
    ["a call that is JSON text", '{"id":"c1"}', "PARAM_INVALID", /^toolCall: expected an object .*, got "\{/],
    [
      "no id",
      { toolName: "strict" },
      "PARAM_INVALID",
      /^toolCall\.id: expected text of 1 to 1024 characters, got nothing$/,
    ],
    ["a number as id", { id: 5, toolName: "strict" }, "PARAM_INVALID", /^toolCall\.id: .* got 5$/],
    ["no tool name", { id: "c1" }, "PARAM_INVALID", /^toolCall\.toolName: expected text .*, got nothing$/],
    [
      "an unknown key of a call",
      { id: "c1", toolName: "strict", args: {} },
      "PARAM_INVALID",
      /^toolCall\.args: Unknown/,
    ],
    [
      "an unknown tool",
      call({}, "strct"),
      "TOOL_UNAVAILABLE",
      /^There is no tool named "strct"; known tools: odd, shaped, strict, zodded$/,
    ],
    [
      "arguments that are JSON text",
      call('{"a":1}'),
      "PARAM_INVALID",
      /^The arguments of strict: at the top: expected .*object/i,
    ],
    [
      "arguments that are not JSON",
      call("{a:1"),
      "PARAM_INVALID",
      /^The arguments of strict: at the top: expected .*object/i,
    ],
    ["null as arguments", call(null), "PARAM_INVALID", /^The arguments of strict: at the top: .*null/i],
    ["a missing key", call({}), "PARAM_INVALID", /^The arguments of strict: at the top: .*"?a"?/],
    ["a wrong type", call({ a: "1" }), "PARAM_INVALID", /^The arguments of strict: \/a: expected .*number.*got/i],
    ["a number out of range", call({ a: -1 }), "PARAM_INVALID", /^The arguments of strict: \/a: .*0/],
    ["an unknown key", call({ a: 1, b: 2 }), "PARAM_INVALID", /^The arguments of strict: \/b: /],
    ["a wrong element", call({ a: 1, tags: ["x", 5] }), "PARAM_INVALID", /^The arguments of strict: \/tags\/1: /],
    [
      "too many elements",
      call({ a: 1, tags: ["x", "y", "z"] }),
      "PARAM_INVALID",
      /^The arguments of strict: \/tags: .*2/,
    ],
    ["NaN, which JSON has not", call({ a: Number.NaN }), "PARAM_INVALID", /^The arguments of strict: \/a: .*null/i],
    [
      "a promise",
      call(Promise.resolve({ a: 5 })),
      "PARAM_INVALID",
      /^toolCall\.arguments: expected a JSON value, got a Promise$/,
    ],
    ["a Map", call(new Map([["a", 5]])), "PARAM_INVALID", /^toolCall\.arguments: expected a JSON value, got a Map$/],
    [
      "a promise inside",
      call({ a: [Promise.resolve(1)] }),
      "PARAM_INVALID",
      /expected a JSON value, got a Promise at \/a\/0$/,
    ],
    ["a Map inside", call({ a: new Map([[1, 2]]) }), "PARAM_INVALID", /expected a JSON value, got a Map at \/a$/],
    ["a Set inside", call({ a: { b: new Set() } }), "PARAM_INVALID", /expected a JSON value, got a Set at \/a\/b$/],
    ["a BigInt", call({ a: 5n }), "PARAM_INVALID", /^toolCall\.arguments: expected a JSON value, got a BigInt at \/a$/],
    ["a cycle", call(cyclic), "PARAM_INVALID", /^toolCall\.arguments: expected a JSON value, got a cycle at \/self$/],
    ["a function", call(() => {}), "PARAM_INVALID", /^toolCall\.arguments: expected a JSON value, got a function$/],
    [
      "huge arguments",
      call({ a: 1, tags: ["x".repeat(200_000)] }),
      "PARAM_INVALID",
      /^The arguments of strict: expected at most 100000 bytes of JSON, got 2000\d\d$/,
    ],
    [
      "200 levels",
      call(JSON.parse(`${"[".repeat(200)}${"]".repeat(200)}`)),
      "PARAM_INVALID",
      /^The arguments of strict: expected JSON nested at most 128 deep$/,
    ],
    [
      "a __proto__ key",
      call(JSON.parse('{"a":{"__proto__":{}}}')),
      "PARAM_INVALID",
      /the key "__proto__" is not allowed, at \/a\/__proto__$/,
    ],
    [
      "a value that the tool's own schema rejects",
      call({ n: 3 }, "zodded"),
      "PARAM_INVALID",
      /^The arguments of zodded: \/n: Expected an even number$/,
    ],
    ["an unknown key for zod", call({ n: 2, m: 1 }, "zodded"), "PARAM_INVALID", /^The arguments of zodded: .*m/],
  ])("%s", async ([, toolCall, code, message]) => {
    const result = await glovebox.execute(toolCall as never);
    const error = errorOf(result);
    expect([error.code, error.message]).toEqual([code, expect.stringMatching(message)]);
    expectPublishable(result);
  });

  test.for<[string, object, RegExp]>([
    [
      "a timeout of null",
      { timeoutMs: 0 },
      /^context\.timeoutMs: expected a number of milliseconds from 1 to 300000, got 0$/,
    ],
    ["a timeout of an hour", { timeoutMs: 3_600_000 }, /^context\.timeoutMs: .* from 1 to 300000, got 3600000$/],
    ["an empty tenant", { tenantId: "" }, /^context\.tenantId: expected text of 1 to 1024 characters, got ""$/],
    ["an endless tenant", { tenantId: "x".repeat(2_000) }, /^context\.tenantId: .* got text of 2000 characters$/],
    [
      "a controller for a signal",
      { signal: new AbortController() },
      /^context\.signal: expected an AbortSignal, got an instance of AbortController$/,
    ],
  ])("a context with %s: PARAM_INVALID", async ([, context, message]) => {
    const result = await glovebox.execute({ id: "c1", toolName: "strict", arguments: { a: 1 } }, context);
    expect([codeOf(result), errorOf(result).message]).toEqual(["PARAM_INVALID", expect.stringMatching(message)]);
    expectPublishable(result);
  });
});

describe("Glovebox.execute() with a tool that returns an invalid output", () => {
  test.for<[string, ErrorCode, RegExp]>([
    ["function", "OUTPUT_INVALID", /^Expected a JSON value, got a function$/],
    ["symbol", "OUTPUT_INVALID", /^Expected a JSON value, got a symbol$/],
    ["bigint", "OUTPUT_INVALID", /^Expected a JSON value, got a BigInt$/],
    ["inner", "OUTPUT_INVALID", /^Expected a JSON value, got an object with a BigInt at \/list\/1\/n$/],
    ["cyclic", "OUTPUT_INVALID", /^Expected a JSON value, got an object with a cycle at \/list\/0\/cyclic$/],
    ["toJSON", "OUTPUT_INVALID", /^Expected a JSON value, got an object that cannot be converted: .*no JSON of me/],
    ["getter", "OUTPUT_INVALID", /^Expected a JSON value, got an object that cannot be converted: .*no x/],
    ["empty", "OUTPUT_INVALID", /^Expected a JSON value, got an object whose toJSON\(\) returned no JSON value$/],
    ["proto", "OUTPUT_INVALID", /^The output of odd: the key "__proto__" is not allowed, at \/a\/__proto__$/],
    ["deep", "OUTPUT_INVALID", /^The output of odd: expected JSON nested at most 128 deep$/],
    ["large", "OUTPUT_TOO_LARGE", /^The output of odd: expected at most 1000000 bytes of JSON/],
    ["error", "TOOL_FAILED", /^Expected a city, got 5$/],
    ["coded", "TOOL_FAILED", /^gone$/],
    ["text", "TOOL_FAILED", /^The tool threw a value that is not an Error: just text$/],
    ["nothing", "TOOL_FAILED", /^The tool threw a value that is not an Error: undefined$/],
    ["object", "TOOL_FAILED", /^The tool threw a value that is not an Error: \{"reason":5\}$/],
    ["number", "TOOL_FAILED", /^The tool threw a value that is not an Error: 42$/],
    ["frozen", "TOOL_FAILED", /^frozen$/],
    ["forged", "TOOL_FAILED", /^no$/],
    ["trap", "TOOL_FAILED", /^The tool threw a value that is not an Error: /],
    ["async", "TOOL_FAILED", /^later$/],
    ["reject", "TOOL_FAILED", /^out of range$/],
    ["never", "TOOL_TIMEOUT", /^odd did not finish within 300 ms \(limits\.timeoutMs\) and was stopped$/],
    ["loop", "TOOL_TIMEOUT", /^odd did not finish within 300 ms \(limits\.timeoutMs\) and was stopped$/],
    [
      "denied",
      "CAPABILITY_DENIED",
      /^ctx\.mail is not granted to this tool; request it with capabilities: \{ mail: true \} and let the host grant it \(grant: \["mail"\]\)$/,
    ],
    ["no such answer", "TOOL_FAILED", /is not a function$/],
  ])("%s", async ([answer, code, message]) => {
    const call = { id: "c1", toolName: "odd", arguments: { answer } };
    const result = await glovebox.execute(call, {
      timeoutMs: code === "TOOL_TIMEOUT" ? 300 : 120_000,
    });
    const error = errorOf(result);
    expect([error.code, error.message]).toEqual([code, expect.stringMatching(message)]);
    expectPublishable(result);
  });

  test("a tool that allocates endlessly: MEMORY_LIMIT", async () => {
    const call = { id: "c1", toolName: "odd", arguments: { answer: "memory" } };
    const error = errorOf(await glovebox.execute(call));
    expect([error.code, error.message]).toEqual([
      "MEMORY_LIMIT",
      "odd used more than 64 MiB of memory (limits.memoryMiB) and was stopped",
    ]);
  });

  test.for<[string, string, unknown, RegExp]>([
    ["a wrong type", "shaped", { output: { sum: "3" } }, /^The output of shaped: \/sum: expected .*number/i],
    ["a missing key", "shaped", { output: {} }, /^The output of shaped: at the top: .*sum/],
    ["nothing", "shaped", {}, /^The output of shaped: at the top: .*null/i],
    ["a value that the tool's own schema rejects", "zodded", { n: 12 }, /^The output of zodded: \/sum: /],
  ])("%s for its output schema: OUTPUT_INVALID", async ([, toolName, args, message]) => {
    const result = await glovebox.execute({ id: "c1", toolName, arguments: args });
    expect([codeOf(result), errorOf(result).message]).toEqual(["OUTPUT_INVALID", expect.stringMatching(message)]);
    expectPublishable(result);
  });
});

/** An error of addTool, as a person or a log would get it. */
function expectPresentable(error: ToolError, code: ErrorCode, message: RegExp): void {
  expect([error.code, error.message]).toEqual([code, expect.stringMatching(message)]);
  expectPublishable(JSON.parse(JSON.stringify(error.toData("it"))));
}

describe("Glovebox.addTool() with an invalid tool", () => {
  const FINE = "export default () => 1";
  let small: Glovebox;
  /** For tools that never end. */
  let hasty: Glovebox;
  beforeAll(async () => {
    small = await makeGlovebox({ engine: { dynamicCode: false }, limits: { timeoutMs: 30_000, memoryMiB: 32 } });
    await small.addTool({ name: "strict", source: FINE });
    hasty = await makeGlovebox({ limits: { timeoutMs: 300 } });
  });
  afterAll(async () => {
    await small.close();
    await hasty.close();
  });
  const broken = join(folder, "broken.ts");
  writeFileSync(broken, "export default ( => 1");

  test.for<[string, unknown, ErrorCode, RegExp]>([
    ["nothing", undefined, "PARAM_INVALID", /^tool: Expected \{ path \}, \{ files, entry\? \} or \{ source \}/],
    ["text", FINE, "PARAM_INVALID", /^tool: Expected \{ path \}/],
    [
      "an object of another kind",
      { code: FINE },
      "PARAM_INVALID",
      /^tool\.code: Unknown option\. Did you mean "source"/,
    ],
    ["two sources", { source: FINE, path: "x" }, "PARAM_INVALID", /^tool: Expected \{ path \}/],
    ["an unknown key", { source: FINE, nam: "x" }, "PARAM_INVALID", /^tool.*(nam|Expected)/],
    ["a number as source", { source: 5 }, "PARAM_INVALID", /^tool/],
    [
      "a malformed name",
      { source: FINE, name: "my tool" },
      "PARAM_INVALID",
      /tool name of 1 to 128 of A-Z a-z 0-9 _ - \., got "my tool"$/,
    ],
    [
      "a limit out of range",
      { source: FINE, overrides: { limits: { timeoutMs: 0 } } },
      "PARAM_INVALID",
      /limits\.timeoutMs/,
    ],
    ["an unknown limit", { source: FINE, overrides: { limits: { timeout: 5 } } }, "PARAM_INVALID", /limits.*timeout/],
    [
      "a taken name",
      { source: FINE, name: "strict" },
      "NAME_TAKEN",
      /^The name "strict" is taken by another tool; remove that tool first/,
    ],
    ["no files", { files: {} }, "BUNDLE_FAILED", /^The tool has no files; expected one of tool\.ts/],
    [
      "no entry",
      { files: { "a.ts": FINE } },
      "BUNDLE_FAILED",
      /^The tool's files have no entry; expected one of .*; the files are a\.ts$/,
    ],
    [
      "a missing entry file",
      { files: { "a.ts": FINE }, entry: "b.ts" },
      "BUNDLE_FAILED",
      /^The entry "b\.ts" is not a file; the files are a\.ts$/,
    ],
    ["a file outside", { files: { "../a.ts": FINE } }, "BUNDLE_FAILED", /^The tool cannot have a file "\.\.\/a\.ts": /],
    ["a missing path", { path: "/no/such/tool.ts" }, "BUNDLE_FAILED", /^There is no file or folder "tool\.ts"/],
    [
      "a folder without an entry",
      { path: folder },
      "BUNDLE_FAILED",
      /^The folder "glovebox-bad-inputs-\w+" has no entry; expected one of/,
    ],
    ["a file with a syntax error", { path: broken }, "BUNDLE_FAILED", /broken\.ts.*1/],
    ["a syntax error", { source: "export default () => {" }, "BUNDLE_FAILED", /tool\.ts.*1/],
    [
      "an empty source",
      { source: "" },
      "BUNDLE_FAILED",
      /^tool\.ts:1:1: tool\.ts has no default export; write export default defineTool/,
    ],
    [
      "no default export",
      { source: "export const x = 1" },
      "BUNDLE_FAILED",
      /^tool\.ts:1:1: tool\.ts has no default export; write export default defineTool/,
    ],
    [
      "a number as default export",
      { source: "export default 5" },
      "BUNDLE_FAILED",
      /^Expected the default export to be a function/,
    ],
    [
      "execute that is not a function",
      { source: "export default { execute: 5 }" },
      "BUNDLE_FAILED",
      /^Expected the default export to be a function/,
    ],
    ["a missing import", { source: `import "./nope.ts"; ${FINE}` }, "BUNDLE_FAILED", /nope\.ts/],
    ["a missing package", { source: `import "no-such-package"; ${FINE}` }, "BUNDLE_FAILED", /no-such-package/],
    [
      "a built-in",
      { source: `import "node:fz"; ${FINE}` },
      "BUNDLE_FAILED",
      /node:fz.*Node has no built-in module of this name/,
    ],
    ["an absolute import", { source: `import "/etc/passwd"; ${FINE}` }, "BUNDLE_FAILED", /passwd/],
    ["a URL import", { source: `import "https://example.com/x.js"; ${FINE}` }, "BUNDLE_FAILED", /example\.com/],
    [
      "a path known only later",
      { source: "export default (x) => import(x.path)" },
      "BUNDLE_FAILED",
      /computed at run time/,
    ],
    ["3 MB of text", { source: `${FINE}\n//${"x".repeat(3_000_000)}` }, "BUNDLE_FAILED", /2097152|2 ?MiB|2\.?\d* MB/],
    ["a top level that throws", { source: `throw new Error("no config"); ${FINE}` }, "TOOL_FAILED", /^no config$/],
    [
      "a top level that throws text",
      { source: `throw "no config"; ${FINE}` },
      "TOOL_FAILED",
      /not an Error: no config$/,
    ],
    [
      "a top level that never settles",
      { source: `await new Promise(() => {}); ${FINE}` },
      "TOOL_TIMEOUT",
      /^The top level of tool\.ts did not finish within 300 ms \(limits\.timeoutMs\) and was stopped$/,
    ],
    [
      "a top level that loops",
      { source: `for (;;); ${FINE}` },
      "TOOL_TIMEOUT",
      /^The top level of tool\.ts did not finish within 300 ms \(limits\.timeoutMs\) and was stopped$/,
    ],
    [
      "a top level that allocates",
      { source: `const all = []; for (;;) all.push(new Array(1e5).fill(1.5)); ${FINE}` },
      "MEMORY_LIMIT",
      /used more than 32 MiB of memory/,
    ],
    [
      "eval",
      { source: `eval("1"); ${FINE}` },
      "TOOL_FAILED",
      /^eval and Function are turned off in this sandbox; the host can grant stringToCode, or set engine\.dynamicCode to true$/,
    ],
    [
      "a global of Node",
      { source: `process.exit(0); ${FINE}` },
      "TOOL_FAILED",
      /^process\.exit\(0\) does not exist in the sandbox/,
    ],
    [
      "a description that is a number",
      { source: `export const description = 5; ${FINE}` },
      "BUNDLE_FAILED",
      /^The tool's definition: description: .*string.*number/,
    ],
    [
      "a malformed name in the source",
      { source: `export const name = "a b"; ${FINE}` },
      "BUNDLE_FAILED",
      /^The tool's definition: name: Expected 1 to 128 of/,
    ],
    [
      "an unknown annotation",
      { source: `export const annotations = { readOnly: true }; ${FINE}` },
      "BUNDLE_FAILED",
      /^The tool's definition: annotations: .*readOnly/,
    ],
    [
      "a limit beyond its maximum",
      { source: `export const limits = { memoryMiB: 1e9 }; ${FINE}` },
      "BUNDLE_FAILED",
      /^The tool's definition: limits\/memoryMiB: /,
    ],
    [
      "a schema of a wrong kind",
      { source: `export const inputSchema = 5; ${FINE}` },
      "BUNDLE_FAILED",
      /^Expected inputSchema to be a Standard Schema or a JSON Schema object, got 5$/,
    ],
    ...(
      [
        [
          "inputSchema",
          "Promise.resolve({})",
          /^Expected inputSchema to be .* JSON Schema object, got a promise that is not awaited$/,
        ],
        ["inputSchema", "{ then() {} }", /got a promise/],
        ["outputSchema", "(async () => ({}))()", /^Expected outputSchema to be .*, got a promise/],
        ["inputSchema", "new Map([['type', 'object']])", /got an object of type Map$/],
        ["inputSchema", "new WeakMap()", /got an object of type WeakMap$/],
        ["inputSchema", "/x/", /got an object of type RegExp$/],
        ["inputSchema", "new Error('x')", /got an object of type Error$/],
        ["inputSchema", "new Date()", /got an object of type Date$/],
        ["inputSchema", "Object.create({ type: 'object' })", /got an object without properties of its own$/],
        [
          "inputSchema",
          "{ properties: { a: Promise.resolve({}) } }",
          /got a promise that is not awaited at \/properties\/a$/,
        ],
        ["inputSchema", "{ allOf: [{}, new Map()] }", /got an object of type Map at \/allOf\/1$/],
        ["limits", "Promise.resolve({ timeoutMs: 100 })", /^Expected limits to be a plain object, got a promise/],
        ["annotations", "new Map()", /^Expected annotations to be a plain object, got an object of type Map$/],
        ["capabilities", "Promise.resolve({})", /^Expected capabilities to be a plain object, got a promise/],
      ] as const
    ).map(([name, value, message]): [string, unknown, ErrorCode, RegExp] => {
      return [
        `${name} that is ${value}`,
        { source: `export const ${name} = ${value}; ${FINE}` },
        "BUNDLE_FAILED",
        message,
      ];
    }),
    [
      "a schema of a library inside of a JSON Schema",
      {
        source: `import * as z from "zod"; export const inputSchema = { type: "object", properties: { a: z.string() } }; ${FINE}`,
      },
      "BUNDLE_FAILED",
      /got a Standard Schema at \/properties\/a$/,
    ],
    [
      "a schema with a wrong type",
      { source: `export const inputSchema = { type: "objekt" }; ${FINE}` },
      "BUNDLE_FAILED",
      /inputSchema.*objekt/,
    ],
    [
      "a schema with a remote $ref",
      { source: `export const inputSchema = { $ref: "https://x.example/s" }; ${FINE}` },
      "BUNDLE_FAILED",
      /inputSchema.*x\.example/,
    ],
    [
      "a schema that is a cycle",
      { source: `export const inputSchema = { type: "object" }; inputSchema.not = inputSchema; ${FINE}` },
      "BUNDLE_FAILED",
      /not JSON.*cycle at \/inputSchema\/not/,
    ],
    [
      "a definition with a BigInt",
      { source: `export const capabilities = { kv: 5n }; ${FINE}` },
      "BUNDLE_FAILED",
      /^The tool's definition is not JSON\. .*BigInt at \/capabilities\/kv$/,
    ],
    [
      "an endless description",
      { source: `export const description = "x".repeat(300_000); ${FINE}` },
      "BUNDLE_FAILED",
      /^The tool's definition: /,
    ],
    [
      "a definition that throws",
      { source: `export default { get description() { throw new Error("none today"); }, execute: () => 1 }` },
      "TOOL_FAILED",
      /^none today$/,
    ],
    [
      "a definition that loops",
      { source: "export default { get description() { for (;;); }, execute: () => 1 }" },
      "TOOL_TIMEOUT",
      /^The top level of tool\.ts did not finish/,
    ],
    [
      "a definition that allocates",
      {
        source: `export default { get description() { const all = []; for (;;) all.push(new Array(1e5).fill(1.5)); }, execute: () => 1 }`,
      },
      "MEMORY_LIMIT",
      /used more than 32 MiB/,
    ],
    [
      "a default export that is a hostile proxy",
      { source: `export default new Proxy({}, { get() { throw new Error("in a trap"); }, has() { return true; } })` },
      "TOOL_FAILED",
      /^in a trap$/,
    ],
  ])("%s", async ([, input, code, message]) => {
    const glovebox = code === "TOOL_TIMEOUT" ? hasty : small;
    expectPresentable(await failureOf(glovebox.addTool(input as never)), code, message);
    expect(hasty.router.getRegisteredTools()).toEqual([]);
    expect(small.router.getRegisteredTools().map(({ name }) => name)).toEqual(["strict"]);
  });

  test.for<[string, object, RegExp]>([
    [
      "an unknown capability",
      { grant: ["wiki"] },
      /^Unknown capability "wiki"\. Expected one of: log, fetch, secrets, kv, tools, elicit, sample, roots, waitFor, webAssembly, sharedArrayBuffer, atomics, resizableBuffers, stringToCode$/,
    ],
    ["text for a list of grants", { grant: "kv" }, /^options\.grant: /],
    ["an unknown option", { tenant: "acme" }, /^options\.tenant: Unknown option. Did you mean "tenantId"\?$/],
    ["an empty tenant", { tenantId: "" }, /^options\.tenantId: /],
    ["an unknown isolateLifetime", { isolateLifetime: "none" }, /^options\.isolateLifetime: .*call.*tool/],
  ])("options with %s: PARAM_INVALID", async ([, options, message]) => {
    expectPresentable(
      await failureOf(glovebox.addTool({ source: FINE, name: "x" }, options)),
      "PARAM_INVALID",
      message,
    );
  });
});

describe("createGlovebox() with invalid options", () => {
  test.for<[string, unknown, RegExp]>([
    ["text", "fast", /^options: /],
    [
      "an unknown key",
      { isolateLife: "call" },
      /^options\.isolateLife: Unknown option. Did you mean "isolateLifetime"\?$/,
    ],
    ["an unknown placement", { placement: "anywhere" }, /^options\.placement: .*tenant.*shared/],
    ["a limit out of range", { limits: { timeoutMs: 400_000 } }, /^options\.limits\.timeoutMs: .*300000/],
    ["no worker", { workers: { max: 0 } }, /^options\.workers\.max: .*1/],
    [
      "a capability that was not made by defineCapability",
      { capabilities: [{ name: "kv" }] },
      /^options\.capabilities\.0: Expected the return value of defineCapability\(\)$/,
    ],
    ["text as onError", { onError: "log" }, /^options\.onError: Expected a function$/],
    ["an unknown limit of the bundler", { bundler: { limits: { source: 5 } } }, /^options\.bundler\.limits.*source/],
  ])("%s: PARAM_INVALID", async ([, options, message]) => {
    expectPresentable(await failureOf(createGlovebox(options as never)), "PARAM_INVALID", message);
  });
});

describe("ToolRouter and Glovebox when closed", () => {
  test("every entry of a closed Glovebox fails with TOOL_UNAVAILABLE", async () => {
    const closed = await makeGlovebox();
    await closed.close();
    expect(codeOf(await closed.execute({ id: "c", toolName: "x" }))).toBe("TOOL_UNAVAILABLE");
    expectPresentable(await failureOf(closed.addTool({ source: "" })), "TOOL_UNAVAILABLE", /^Glovebox is closed$/);
    expectPresentable(await failureOf(closed.inspectTool({ source: "" })), "TOOL_UNAVAILABLE", /^Glovebox is closed$/);
  });

  test("a value that is not a batch, or has invalid calls: one result each, never a rejection", async () => {
    const results = await glovebox.executeBatch([
      undefined,
      { id: "c", toolName: "strict", arguments: { a: 1 } },
    ] as never);
    expect(results.map(codeOf)).toEqual(["PARAM_INVALID", "ok"]);
    await expect(glovebox.executeBatch([], { maxConcurrency: Number.NaN })).resolves.toEqual([]);
  });

  test("a router without tools reports that it has none", async () => {
    const error = errorOf(await new ToolRouter().execute({ id: "c", toolName: "x" }));
    expect([error.code, error.message]).toEqual([
      "TOOL_UNAVAILABLE",
      'There is no tool named "x"; no tools are registered',
    ]);
  });
});
