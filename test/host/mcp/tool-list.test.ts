// Tests the pages of tools/list: they are stable while tools change, and accept only their own cursors.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { toArguments } from "../../../src/host/mcp/server/tools/tool-arguments.ts";
import { toMcpTool, toToolPage } from "../../../src/host/mcp/server/tools/tool-list.ts";
import type { ToolDefinition } from "../../../src/sandbox/contract/definition.ts";

const define = (name: string): ToolDefinition => ({ name, description: "", inputSchema: { type: "object" } });
const many = (count: number): ToolDefinition[] =>
  Array.from({ length: count }, (_, n) => define(`tool_${String(n).padStart(4, "0")}`));

function pagesOf(definitionsAt: (page: number) => readonly ToolDefinition[]): string[][] {
  const pages: string[][] = [];
  let cursor: string | undefined;
  do {
    const page = toToolPage(definitionsAt(pages.length), cursor);
    pages.push(page.tools.map(({ name }) => name));
    cursor = page.nextCursor;
  } while (cursor !== undefined && pages.length < 100);
  return pages;
}

describe("toToolPage()", () => {
  test.for([
    [0, [0]],
    [250, [250]],
    [251, [250, 1]],
    [700, [250, 250, 200]],
  ] as const)("%i tools are split into pages, each tool once, sorted by name", ([count, sizes]) => {
    const tools = many(count);
    const pages = pagesOf(() => [...tools].reverse());
    expect(pages.map(({ length }) => length)).toEqual(sizes);
    expect(pages.flat()).toEqual(tools.map(({ name }) => name));
  });

  test("adding and removing tools between pages moves no other tool", () => {
    const [gone, stays] = [many(600).slice(0, 300), many(600).slice(300)];
    const pages = pagesOf((page) => (page === 0 ? [...gone, ...stays] : [define("a_new_one"), ...stays]));
    expect(pages.flat().filter((name) => stays.some((tool) => tool.name === name))).toEqual(
      stays.map(({ name }) => name),
    );
  });

  test("an invalid cursor is rejected with -32602", () => {
    const own = toToolPage(many(251), undefined).nextCursor;
    fc.assert(
      fc.property(
        fc.oneof(fc.string(), fc.base64String(), fc.string({ minLength: 1_000, maxLength: 2_000 })),
        (text) => {
          const isCursor = Buffer.from(Buffer.from(text, "base64url").toString()).toString("base64url") === text;
          fc.pre(text !== own && !(isCursor && text !== "" && text.length <= 1_024));
          expect(() => toToolPage(many(251), text)).toThrow(expect.objectContaining({ code: -32_602 }));
        },
      ),
    );
  });
});

describe("toMcpTool()", () => {
  const wrapped = { type: "object", properties: { input: expect.anything() }, required: ["input"] };
  test.for([
    ["no type", {}, { type: "object" }],
    ["choices that are objects", { anyOf: [{ type: "object" }, { required: ["a"] }] }, { anyOf: [{}, {}] }],
    ["an object by reference", { $ref: "#/$defs/a", $defs: { a: { type: "object" } } }, { $ref: "#/$defs/a" }],
    ["itself", { $ref: "#" }, { $ref: "#" }],
    ["an array", { type: "array" }, { ...wrapped, properties: { input: { type: "array" } } }],
    ["objects, or nothing", { type: ["object", "null"] }, wrapped],
    [
      "alternatives of which one is not an object",
      { anyOf: [{ type: "object" }, { oneOf: [{ type: "string" }] }] },
      wrapped,
    ],
    ["words", { enum: ["a", "b"] }, wrapped],
    ["one value", { const: 5 }, wrapped],
    ["a text by reference", { $ref: "#/$defs/a~1b", $defs: { "a/b": { type: "string" } } }, wrapped],
    [
      "references to itself",
      { type: "array", items: { $ref: "#/$defs/a" }, $defs: { a: { type: "string" } } },
      { properties: { input: { items: { $ref: "#/properties/input/$defs/a" } } } },
    ],
  ] as const)("returns an object schema for an input schema of %s", ([, inputSchema, expected]) => {
    const shown = toMcpTool({ name: "x", description: "", inputSchema }).inputSchema;
    expect(shown).toMatchObject({ type: "object", ...expected });
    const isWrapped = shown.properties?.input !== undefined;
    expect(toArguments(inputSchema, { input: 5 })).toEqual(isWrapped ? 5 : { input: 5 });
  });

  test("arguments that are not wrapped are passed unchanged", () => {
    const inputSchema = { type: ["object", "null"] };
    for (const args of [{}, { a: 1 }, { input: null, a: 1 }]) expect(toArguments(inputSchema, args)).toBe(args);
    expect(toArguments(inputSchema, { input: null })).toBeNull();
  });
});
