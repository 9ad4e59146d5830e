// Search over a catalog of 1,000 tools: names in any style, synonyms, endings and typing errors.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { toTerm, toWords } from "../../../src/host/agent/tools/search-terms.ts";
import { ToolIndex, ToolSearch } from "../../../src/host/agent/tools/tool-search.ts";
import type { JsonSchema, ToolDefinition } from "../../../src/sandbox/contract/definition.ts";
import { makeCatalog } from "../../support/tool-catalog.ts";

const tool = (name: string, description = "", inputSchema: JsonSchema = {}): ToolDefinition => ({
  name,
  description,
  inputSchema,
});
async function namesFor(
  definitions: readonly ToolDefinition[],
  request: string,
  limit = 20,
): Promise<readonly string[]> {
  const index = await new ToolSearch().indexOf(definitions);
  return index.search(request, limit).map(({ name }) => name);
}

describe("toWords()", () => {
  test.for([
    ["sendEmail", ["send", "Email"]],
    ["HTTPServerStart", ["HTTP", "Server", "Start"]],
    ["snake_case-and.dots", ["snake", "case", "and", "dots"]],
    ["s3Bucket2Copy", ["s3", "Bucket2", "Copy"]],
    ["Zürich, bitte!", ["Zurich", "bitte"]],
    ["", []],
  ] as const)("splits %j", ([text, words]) => expect(toWords(text)).toEqual(words));

  test("splits scripts without spaces", () => {
    expect(toWords("明日の天気を教えて")).toContain("天気");
  });

  test("returns words for any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        for (const word of toWords(text)) expect(word).not.toBe("");
      }),
    );
  });
});

test.for([
  ["emails", "email"],
  ["sending", "send"],
  ["created", "creating"],
  ["planned", "plan"],
  ["queries", "query"],
  ["branches", "branch"],
] as const)("%s and %s are one term", ([a, b]) => expect(toTerm(a)).toBe(toTerm(b)));

describe("ToolIndex.search()", () => {
  test("finds the right tool among 1,000 for at least 98 of 100 requests in its first 20", async () => {
    const { definitions, cases } = makeCatalog();
    expect(definitions).toHaveLength(1_000);
    const index = new ToolIndex(definitions);
    await index.ready;
    const places = cases.map(({ request, toolName }) =>
      index.search(request, 20).findIndex(({ name }) => name === toolName),
    );
    const recall = (within: number): number =>
      places.filter((place) => place >= 0 && place < within).length / cases.length;
    expect(recall(20)).toBeGreaterThanOrEqual(0.98);
    expect(recall(5)).toBeGreaterThanOrEqual(0.9);
  });

  const TOOLS = [
    tool("gmail_messages_send", "Sends a message"),
    tool("weatherForecast", "How the sky will be"),
    tool("db.rows.delete", "Removes rows"),
    tool("convert", "Converts amounts", {
      properties: { currency: { description: "Which money", enum: ["CHF", "EUR"] } },
    }),
    tool("tenki", "天気を教える"),
  ];
  test.for([
    ["please send an email message to Bob", "gmail_messages_send"],
    ["what's the forcast for tomorrow?", "weatherForecast"],
    ["get rid of old rows", "db.rows.delete"],
    ["100 eur in chf", "convert"],
    ["which currency", "convert"],
    ["明日の天気", "tenki"],
  ] as const)("for %j finds %s first", async ([request, name]) => {
    expect((await namesFor(TOOLS, request))[0]).toBe(name);
  });

  test("finds nothing for a request of stop words", async () => {
    expect(await namesFor(TOOLS, "")).toEqual([]);
    expect(await namesFor(TOOLS, "could you please do it for me?")).toEqual([]);
  });

  test("does not rank a repetitive description first", async () => {
    const stuffed = tool("greedy", "send email weather forecast delete rows convert currency message ".repeat(200));
    expect((await namesFor([stuffed, ...TOOLS], "delete rows"))[0]).toBe("db.rows.delete");
    expect((await namesFor([stuffed, ...TOOLS], "weather forecast"))[0]).toBe("weatherForecast");
  });

  test("accepts any request and any schema of any size", async () => {
    const deep = Array.from({ length: 5_000 }).reduce<JsonSchema>((inner) => ({ properties: { inner } }), {});
    const definitions = [tool("deep", "deep", deep), tool("odd", "odd", { properties: 5, items: null, anyOf: {} })];
    expect(await namesFor(definitions, `odd ${"word ".repeat(100_000)}`)).toEqual(["odd"]);
    const index = await new ToolSearch().indexOf(definitions);
    fc.assert(fc.property(fc.string(), (request) => index.search(request, 5).length <= 5));
  });
});

describe("ToolSearch.indexOf()", () => {
  test("reuses an index until a tool changes", async () => {
    const search = new ToolSearch();
    const [a, b] = [tool("a"), tool("b")];
    const first = await search.indexOf([a, b]);
    expect(await search.indexOf([a, b])).toBe(first);
    const second = await search.indexOf([a, { ...b }]);
    expect(second).not.toBe(first);
    expect(await search.indexOf([a])).not.toBe(first);
    // Other sets, such as those of other tenants, do not evict it.
    expect(await search.indexOf([a, b])).toBe(first);
  });
});
