import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ToolNames, toOpenAITools } from "../../../src/host/openai/index.ts";
import { toWireName } from "../../../src/host/openai/tool-names.ts";
import { TOOL_NAME_PATTERN } from "../../../src/sandbox/contract/tool-name.ts";

describe("ToolNames", () => {
  const toolName = fc.stringMatching(TOOL_NAME_PATTERN);

  test("maps each name to a unique valid name, and back", () => {
    fc.assert(
      fc.property(fc.uniqueArray(toolName, { maxLength: 20 }), (toolNames) => {
        const names = new ToolNames(toolNames);
        const aliases = toolNames.map((name) => names.wireNameOf(name).name);
        expect(new Set(aliases).size).toBe(aliases.length);
        for (const [index, alias] of aliases.entries()) {
          expect(alias).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
          expect(names.toToolName(alias)).toBe(toolNames[index]);
        }
      }),
      { numRuns: 200 },
    );
  });

  test("maps a name to the same alias in any list and any order", () => {
    const alias = new ToolNames(["crm.find"]).wireNameOf("crm.find").name;
    expect(new ToolNames(["a", "crm_find", "crm.find", "b"]).wireNameOf("crm.find").name).toBe(alias);
    expect(new ToolNames([]).wireNameOf("crm.find").name).toBe(alias);
  });

  test("keeps a tool's valid name even if it equals another tool's alias", () => {
    const alias = toWireName("crm.find");
    const names = new ToolNames(["crm.find", alias]);
    expect(names.toToolName(alias)).toBe(alias);
    const longer = names.wireNameOf("crm.find").name;
    expect(longer).not.toBe(alias);
    expect(names.toToolName(longer)).toBe("crm.find");
  });

  test("distinguishes two long names", () => {
    const long = "x".repeat(100);
    const names = new ToolNames([`${long}a`, `${long}b`]);
    expect(names.wireNameOf(`${long}a`).name).toHaveLength(64);
    expect(names.toToolName(names.wireNameOf(`${long}b`).name)).toBe(`${long}b`);
  });

  test("finds tools in namespaces, also without the namespace if the name is unique", () => {
    const names = new ToolNames(["crm.find", "crm.list", "shop.list"], ["crm", "shop"]);
    expect(names.wireNameOf("crm.find")).toEqual({ namespace: "crm", name: "find" });
    expect(names.toToolName("list", "shop")).toBe("shop.list");
    expect(names.toToolName("find")).toBe("crm.find");
    expect(names.toToolName("list")).toBe("list");
    expect(names.toToolName("crm.list")).toBe("crm.list");
    expect(names.toToolName("functions.find")).toBe("crm.find");
  });
});

describe("toOpenAITools()", () => {
  const definition = (name: string, inputSchema: object) => ({
    name,
    description: name,
    inputSchema: inputSchema as never,
  });
  const one = { type: "object", properties: { q: { type: "string" } }, required: ["q"] };

  test("creates tools for both APIs, strict if possible, otherwise with the reason", () => {
    const definitions = [definition("a", one), definition("b", { type: "object" })];
    const responses = toOpenAITools(definitions, { api: "responses" });
    expect(responses.tools).toEqual([
      {
        type: "function",
        name: "a",
        description: "a",
        strict: true,
        parameters: { ...one, additionalProperties: false },
      },
      { type: "function", name: "b", description: "b", strict: false, parameters: { type: "object", properties: {} } },
    ]);
    expect(responses.notes[1]?.reason).toMatch(/unnamed properties/);
    const chat = toOpenAITools(definitions, { api: "chat", strict: false });
    expect(chat.tools[0]).toEqual({
      type: "function",
      function: { name: "a", description: "a", strict: false, parameters: one },
    });
    expect(chat.notes[0]?.reason).toBe("Strict mode is turned off");
  });

  test("wraps a schema that is not valid at the root, with its references", () => {
    const union = { anyOf: [{ type: "string" }, { $ref: "#/$defs/n" }], $defs: { n: { type: "number" } } };
    const { tools, notes } = toOpenAITools([definition("u", union)], { api: "responses" });
    expect(tools[0]).toMatchObject({
      strict: true,
      parameters: {
        type: "object",
        required: ["input"],
        properties: { input: { anyOf: [{ type: "string" }, { $ref: "#/$defs/n" }] } },
      },
    });
    expect(notes[0]).toMatchObject({ strict: true });
    const list = { type: "array", items: { $ref: "#" } };
    const data = { anyOf: [{ properties: { a: { const: { $ref: "#/x" } } } }], default: { $ref: "#" } };
    expect(toOpenAITools([definition("d", data)], { api: "responses" }).tools[0]).toMatchObject({
      parameters: { properties: { input: data } },
    });
    const [wrapped] = toOpenAITools([definition("l", list)], { api: "responses" }).tools;
    expect(wrapped).toMatchObject({ parameters: { properties: { input: { items: { $ref: "#/properties/input" } } } } });
  });

  test("creates custom tools for tools with one text input, namespaces, and a search", () => {
    const definitions = [definition("write", one), definition("crm.find", one)];
    const { tools } = toOpenAITools(definitions, {
      api: "responses",
      custom: ["write"],
      namespaces: { crm: "Customers" },
      toolSearch: true,
    });
    expect(tools).toMatchObject([
      { type: "custom", name: "write", defer_loading: true },
      {
        type: "namespace",
        name: "crm",
        description: "Customers",
        tools: [{ type: "function", name: "find", defer_loading: true }],
      },
      { type: "tool_search" },
    ]);
    expect(() => toOpenAITools([definition("b", {})], { api: "chat", custom: ["b"] })).toThrow(/required string/);
    expect(() => toOpenAITools([], { api: "chat", toolSearch: true })).toThrow(/Chat Completions/);
  });
});
