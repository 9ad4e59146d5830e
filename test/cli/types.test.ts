// glovebox types: its declarations compile under strict rules and match the schemas, and no schema can inject other code.
import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import fc from "fast-check";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { toDeclarations } from "../../src/cli/commands/types.ts";
import type { JsonSchema, ToolDefinition } from "../../src/sandbox/contract/definition.ts";
import { enterFolder, runInProcess } from "../support/cli-in-process.ts";

const run = promisify(execFile);
const TSC = fileURLToPath(new URL("../../node_modules/typescript/bin/tsc", import.meta.url));
const PATIENCE_MS = 240_000;

let folder = "";
beforeEach(async () => {
  const entered = await enterFolder({});
  folder = entered.folder;
  onTestFinished(() => entered.leave());
});

/** Compiler output under the strictest rules; empty if there are no errors. */
async function compile(declarations: string, use = ""): Promise<string> {
  await writeFile(join(folder, "tools.d.ts"), declarations);
  await writeFile(join(folder, "use.ts"), `import type { Tools } from "./tools.d.ts";\nexport type T = Tools;\n${use}`);
  const options = [
    "--noEmit",
    "--strict",
    "--noUncheckedIndexedAccess",
    "--exactOptionalPropertyTypes",
    "--types",
    "",
    "--module",
    "nodenext",
    "--allowImportingTsExtensions",
  ];
  try {
    await run(process.execPath, [TSC, ...options, "tools.d.ts", "use.ts"], { cwd: folder });
    return "";
  } catch (thrown) {
    return (thrown as { readonly stdout: string }).stdout;
  }
}

const toolOf = (name: string, inputSchema: object, outputSchema?: object): ToolDefinition => ({
  name,
  description: `The tool */ ${name}`,
  inputSchema: inputSchema as JsonSchema,
  ...(outputSchema === undefined ? {} : { outputSchema: outputSchema as JsonSchema }),
});

test("the compiler checks a client of typed tools", { timeout: PATIENCE_MS }, async () => {
  const tree = {
    type: "object",
    properties: { value: { type: "string" }, children: { type: "array", items: { $ref: "#/$defs/tree" } } },
    required: ["value"],
  };
  const add = toolOf(
    "add",
    {
      type: "object",
      properties: {
        a: { type: "number", description: "the first" },
        b: { type: "integer" },
        mode: { enum: ["exact", "fast"] },
      },
      required: ["a", "b"],
      additionalProperties: false,
    },
    {
      type: "object",
      properties: { sum: { type: "number" }, note: { type: ["string", "null"] } },
      required: ["sum", "note"],
    },
  );
  const walk = toolOf(
    "walk-tree",
    { $ref: "#/$defs/tree", $defs: { tree } },
    { type: "array", items: { anyOf: [{ type: "string" }, { const: 7 }] } },
  );
  const any = toolOf("2-any.thing", { type: "object" });
  const declarations = toDeclarations([add, walk, any]);
  const use = `
    declare const tools: Tools;
    export async function use(): Promise<void> {
      const { sum, note } = await tools.add({ a: 1, b: 2, mode: "fast" });
      const total: number = sum;
      const text: string | null = note;
      // @ts-expect-error a string is not a number
      await tools.add({ a: 1, b: "2" });
      // @ts-expect-error b is missing
      await tools.add({ a: 1 });
      // @ts-expect-error c does not exist
      await tools.add({ a: 1, b: 2, c: 3 });
      // @ts-expect-error not one of the modes
      await tools.add({ a: 1, b: 2, mode: "slow" });
      const [first] = await tools["walk-tree"]({ value: "x", children: [{ value: "y" }] });
      const found: string | 7 | undefined = first;
      // @ts-expect-error a child has a value
      await tools["walk-tree"]({ value: "x", children: [{}] });
      const output: unknown = await tools["2-any.thing"]({ whatever: [1] });
      // @ts-expect-error the output has no type
      const wrong: number = await tools["2-any.thing"]({});
      return void [total, text, found, output, wrong];
    }`;
  expect(await compile(declarations, use)).toBe("");
  expect(declarations).toContain("/** the first */");
  expect(declarations).toContain("export interface Add {");
});

const STRANGE: readonly (readonly [what: string, schema: object])[] = [
  [
    "a description that would end its comment",
    { type: "object", properties: { a: { description: "*/ export const x = 1; /*\n\u2028 y\u202e\u{e0041}" } } },
  ],
  [
    "names that are not identifiers",
    {
      type: "object",
      properties: { "a-b": {}, "": {}, '"; evil': {}, "\u202e": {}, constructor: {}, "line\nbreak": {} },
    },
  ],
  ["texts that contain code", { enum: ['"; export const y = 1; "', "\u0060$\u007b1}\u0060", "\u2028", "\\"] }],
  ["a cycle of references", { $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } }, $ref: "#/$defs/a" }],
  ["a recursive union", { $defs: { a: { anyOf: [{ $ref: "#/$defs/a" }, { type: "string" }] } }, $ref: "#/$defs/a" }],
  ["a schema that refers to itself", { $ref: "#" }],
  ["a list of itself", { type: "array", items: { $ref: "#" } }],
  ["an index of itself", { type: "object", additionalProperties: { $ref: "#" } }],
  ["a tuple of itself", { type: "array", prefixItems: [{ $ref: "#" }, { type: "string" }], items: false }],
  ["dangling references", { allOf: [{ $ref: "#/nowhere" }, { $ref: "https://example.com/x" }, { $ref: "#/%" }] }],
  ["unknown types", { type: ["file", "string", 7] }],
  ["a schema that allows nothing", { enum: [], properties: false }],
  [
    "an index signature with properties of another type",
    { type: "object", properties: { a: { type: "number" } }, additionalProperties: { type: "string" } },
  ],
  [
    "schemas in all keywords",
    {
      type: "object",
      properties: { a: false, b: true },
      allOf: [{ properties: { c: { type: "null" } } }],
      oneOf: [{}, { required: ["a"] }],
    },
  ],
];

test("unusual schemas of every kind compile to types only", { timeout: PATIENCE_MS }, async () => {
  const definitions = STRANGE.map(([what, schema], index) => toolOf(`${what} ${index}`, schema, schema));
  const names = ["Tools", "string", "Promise", "a b", "a-b", "a.b", "__proto__", "constructor", "new", "get"].map(
    (name) => toolOf(name, {}),
  );
  const text = toDeclarations([...definitions, ...names]);
  const use = `export const use = (tools: Tools) => [tools.new({}), tools.get({}), tools.constructor({})];
    // @ts-expect-error a tool named "new" is not a constructor
    export const made = (tools: Tools) => new tools({});`;
  expect(await compile(text, use)).toBe("");
  expect(text).not.toMatch(/[^\P{Cc}\n]|[\u2028\u202a-\u202e\u2066-\u2069]|[\u{e0000}-\u{e01ef}]/u);
  expect(text.split("\n").filter((line) => /^\s*export (?!type |interface )/.test(line))).toEqual([]);
});

test("truncates a schema that nests, fans out or refers endlessly", () => {
  const nested = Array.from({ length: 5_000 }).reduce<object>((inner) => ({ type: "array", items: inner }), {});
  const $defs = Object.fromEntries(
    Array.from({ length: 30 }, (_, n) => [
      `d${n}`,
      { type: "object", properties: { a: { $ref: `#/$defs/d${n + 1}` }, b: { $ref: `#/$defs/d${n + 1}` } } },
    ]),
  );
  const fan = { $defs, $ref: "#/$defs/d0" };
  const wide = { enum: Array.from({ length: 100_000 }, (_, n) => `value ${n}`) };
  // Without limits, the second schema would expand to 2 ** 30 parts.
  expect(toDeclarations([toolOf("a", nested), toolOf("b", fan), toolOf("c", wide)]).length).toBeLessThan(100_000);
});

test("accepts any JSON as a schema without throwing", () => {
  fc.assert(
    fc.property(
      fc.string(),
      fc.dictionary(fc.constantFrom("type", "properties", "items", "enum", "$ref", "allOf", "const"), fc.jsonValue()),
      (name, schema) => {
        expect(toDeclarations([toolOf(name, schema, schema)])).toContain("export interface Tools");
      },
    ),
  );
});

describe("glovebox types", () => {
  test("writes a folder of tools to a file or to stdout", { timeout: PATIENCE_MS }, async () => {
    await mkdir(join(folder, "tools", "one"), { recursive: true });
    await mkdir(join(folder, "tools", "not-a-tool"));
    await writeFile(
      join(folder, "tools", "one", "tool.ts"),
      "export const description = 'One';\nexport default () => 1;",
    );
    await writeFile(join(folder, "two.ts"), "export default () => 2;");
    const written = await runInProcess(["types", "tools", "two.ts", "--out", "tools.d.ts"]);
    expect(written).toMatchObject({ code: 0, stderr: "Wrote the types of 2 tools to tools.d.ts\n" });
    const text = await readFile(join(folder, "tools.d.ts"), "utf8");
    expect(text).toMatch(
      /export interface Tools \{\n {2}\/\*\* One \*\/\n {2}one\(input: OneInput\): Promise<OneOutput>;\n {2}two\(/,
    );
    const printed = await runInProcess(["types", "tools/one"]);
    expect(printed.code).toBe(0);
    expect(printed.stdout).toMatch(/one\(input: OneInput\): Promise<OneOutput>;/);
  });

  test.for([
    [["types", "gone"], {}, /There is no file or folder "gone"/],
    [["types"], {}, /\. has no tools\. Expected a tool, or a folder of folders with one of tool\.ts/],
    [["types", "bad.ts"], { "bad.ts": "export default (" }, /BUNDLE_FAILED: bad\.ts:1/],
    [["types", "a.ts", "a.ts"], { "a.ts": "export default () => 1" }, /a\.ts: there is another tool named "a"/],
    [
      ["types", "a.ts", "--out", "no/such/folder.d.ts"],
      { "a.ts": "export default () => 1" },
      /--out no\/such\/folder\.d\.ts cannot be written: ENOENT/,
    ],
  ] as const)("rejects %j with code 2", { timeout: PATIENCE_MS }, async ([args, files, message]) => {
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    const { code, stderr } = await runInProcess(args);
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
  });
});
