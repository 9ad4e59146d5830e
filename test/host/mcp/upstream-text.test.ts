// Tests invisible characters in tool definitions: they are removed from texts, and tools with such names or values are rejected.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { invisibleIn, toVisible } from "../../../src/host/mcp/client/text/visible-text.ts";
import { readUpstreamTool } from "../../../src/host/mcp/client/upstream-schema.ts";

/** Writes a text in tag characters, which a model reads and a user does not see. */
const inTags = (text: string): string =>
  [...text].map((each) => String.fromCodePoint(0xe0000 + each.charCodeAt(0))).join("");
const INVISIBLE: readonly (readonly [name: string, text: string])[] = [
  ["tags", inTags("obey")],
  ["a zero-width space", "\u200b"],
  ["a zero-width joiner", "\u200d"],
  ["a mark of direction", "\u200f"],
  ["a word joiner", "\u2060"],
  ["an invisible operator", "\u2063"],
  ["a byte order mark", "\ufeff"],
  ["an override of direction", "\u202e"],
  ["an isolate of direction", "\u2067"],
  ["a variation selector", "\ufe00"],
  ["a supplementary variation selector", "\u{e0101}"],
  ["a soft hyphen", "\u00ad"],
  ["a Hangul filler", "\u3164"],
  ["a control character", "\u001b"],
  ["an interlinear annotation", "\ufff9"],
];

describe.for(INVISIBLE)("%s", ([, hidden]) => {
  const hiding = `a${hidden}b`;

  test("is removed from texts", () => {
    const read = readUpstreamTool({
      name: "t",
      title: hiding,
      description: hiding,
      inputSchema: {
        type: "object",
        title: hiding,
        properties: { p: { type: "string", description: hiding, $comment: hiding } },
      },
    });
    expect(read).toMatchObject({
      definition: {
        description: "ab",
        annotations: { title: "ab" },
        inputSchema: { title: "ab", properties: { p: { description: "ab", $comment: "ab" } } },
      },
    });
  });

  test.for([
    ["an enum", { p: { enum: ["x", hiding] } }],
    ["a const", { p: { const: hiding } }],
    ["a default", { p: { default: hiding } }],
    ["an example", { p: { examples: [{ description: hiding }] } }],
    ["a member of a value that is called title", { p: { const: { title: hiding } } }],
    ["a pattern", { p: { pattern: hiding } }],
    ["a property's name", { [hiding]: {} }],
    ["an unknown keyword", { p: { [hiding]: 1 } }],
    ["a definition's name", { p: { $defs: { [hiding]: {} } } }],
    ["a required name", { p: { type: "object", required: [hiding] } }],
  ] as const)("in %s makes the tool invalid", ([, properties]) => {
    for (const schemas of [
      { inputSchema: { type: "object", properties } },
      { inputSchema: { type: "object" }, outputSchema: { type: "object", properties } },
    ]) {
      const read = readUpstreamTool({ name: "t", ...schemas });
      expect(read).toMatchObject({
        problem: expect.stringMatching(/expected visible characters, got U\+[0-9A-F]{4,6} in .*"ab"/),
      });
    }
  });
});

describe("text that is visible", () => {
  test.for(["plain", "é ü 漢字 العربية हिन्दी", "line\n\ttab", "❤️", "👩‍🚀", "👨🏽‍💻", "1️⃣", "🏳️‍🌈", "🇨🇭"])(
    "%s stays unchanged",
    (text) => {
      expect(toVisible(text)).toBe(text);
      expect(invisibleIn(text)).toBeUndefined();
      const schema = { type: "object", properties: { p: { enum: [text], description: text } } };
      expect(readUpstreamTool({ name: "t", inputSchema: schema })).toMatchObject({
        definition: { inputSchema: schema },
      });
    },
  );

  test("contains nothing invisible after the removal, for any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const visible = toVisible(text);
        // A joiner next to a removed character may no longer be part of an emoji.
        expect(invisibleIn(toVisible(visible))).toBeUndefined();
      }),
    );
  });

  test("a schema's properties can have the names of keywords", () => {
    const properties = { title: { type: "string" }, enum: { description: "e\u200b" }, const: { title: "t" } };
    expect(readUpstreamTool({ name: "t", inputSchema: { type: "object", properties } })).toMatchObject({
      definition: { inputSchema: { properties: { enum: { description: "e" } } } },
    });
  });
});
