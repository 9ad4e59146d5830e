// Tools as OpenAPI and as one JSON Schema: valid documents in which every schema keeps its meaning.
import { Validator } from "@seriousme/openapi-schema-validator";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { type JsonSchema, type ToolDefinition, toCallSchema, toOpenApi } from "../../../src/host/index.ts";
import { compileSchema } from "../../../src/host/json-schema/compile-schema.ts";

const Tree: z.ZodType = z.lazy(() => z.strictObject({ name: z.string(), children: z.array(Tree) }));

const define = (name: string, inputSchema: JsonSchema, outputSchema?: JsonSchema): ToolDefinition => ({
  name,
  description: `About ${name}`,
  inputSchema,
  ...(outputSchema === undefined ? {} : { outputSchema }),
});

/** A schema, a valid input and an invalid one. */
const CASES: readonly (readonly [name: string, schema: JsonSchema, good: unknown, bad: unknown])[] = [
  ["plain", { type: "object", properties: { a: { type: "number" } }, required: ["a"] }, { a: 1 }, { a: "1" }],
  [
    "defs.used",
    {
      type: "object",
      properties: { at: { $ref: "#/$defs/place" }, $ref: { type: "string" } },
      required: ["at"],
      $defs: { place: { type: "object", required: ["city"], properties: { back: { $ref: "#" } } } },
    },
    { at: { city: "Rome", back: { at: { city: "Oslo" } } }, $ref: "a property of that name" },
    { at: { city: "Rome", back: { at: {} } } },
  ],
  [
    "recursive",
    z.toJSONSchema(Tree) as JsonSchema,
    { name: "a", children: [{ name: "b", children: [] }] },
    { name: "a", children: [{ name: "b" }] },
  ],
  [
    "anchored",
    { type: "object", properties: { a: { $ref: "#small" } }, $defs: { one: { $anchor: "small", maximum: 3 } } },
    { a: 3 },
    { a: 4 },
  ],
  [
    "data-like-a-ref",
    {
      type: "object",
      properties: { a: { enum: [{ $ref: "#/$defs/none" }], default: { $ref: "#/x" } } },
      required: ["a"],
    },
    { a: { $ref: "#/$defs/none" } },
    { a: { $ref: "#/components/schemas/data-like-a-ref.input/$defs/none" } },
  ],
  ["__proto__", { type: "object", required: ["x"] }, { x: 1 }, {}],
  ["ToolError", { type: "object", maxProperties: 0 }, {}, { x: 1 }],
];
const definitions = CASES.map(([name, schema]) => define(name, schema, { type: "object" }));

describe("toOpenApi()", () => {
  const options = {
    title: "Shop",
    version: "2.0.0",
    description: "What a shop's agent may do",
    servers: [{ url: "https://tools.example.com" }],
  };
  const document = toOpenApi(definitions, options);

  test("returns a document that a third-party validator accepts", async () => {
    // The validator resolves every $ref, even in examples, and does not support anchors.
    const simple = definitions.filter(({ name }) => ["plain", "recursive", "__proto__", "ToolError"].includes(name));
    const checked = await new Validator().validate(JSON.parse(JSON.stringify(toOpenApi(simple, options))));
    expect(checked.errors ?? []).toEqual([]);
  });

  test("has one operation for each tool, with errors by status", () => {
    expect(Object.keys(document.paths)).toEqual(CASES.map(([name]) => `/tools/${name}`));
    const { post } = document.paths["/tools/plain"] as { readonly post: { readonly responses: object } };
    expect(post).toMatchObject({ operationId: "plain", description: "About plain" });
    expect(Object.keys(post.responses)).toEqual(
      expect.arrayContaining(["200", "403", "404", "422", "429", "499", "503", "504"]),
    );
  });

  test.for(CASES)("%s keeps its meaning", ([name, , good, bad]) => {
    const schema = compileSchema({
      ...(document as unknown as JsonSchema),
      $ref: `#/components/schemas/${name}.input`,
    });
    expect([schema.validate(good).valid, schema.validate(bad).valid]).toEqual([true, false]);
  });

  test("does not change the definitions, and omits the schema of an untyped output", () => {
    const schema: JsonSchema = Object.freeze({
      type: "object",
      properties: { a: Object.freeze({ $ref: "#/$defs/b" }) },
      $defs: { b: {} },
    });
    const { paths } = toOpenApi([define("frozen", schema)], { pathOf: (name) => `/v1/${name}:call` });
    expect(paths["/v1/frozen:call"]).toMatchObject({
      post: { responses: { 200: { content: { "application/json": {} } } } },
    });
    expect(schema).toMatchObject({ properties: { a: { $ref: "#/$defs/b" } } });
  });
});

describe("toCallSchema()", () => {
  const schema = compileSchema(toCallSchema(definitions));

  test.for(CASES)("validates a call of %s", ([toolName, , good, bad]) => {
    expect(schema.validate({ toolName, arguments: good }).valid).toBe(true);
    expect(schema.validate({ toolName, arguments: bad }).valid).toBe(false);
  });

  test("rejects any other call, and every call if there are no tools", () => {
    expect(schema.validate({ toolName: "none", arguments: {} }).valid).toBe(false);
    expect(compileSchema(toCallSchema([])).validate({ toolName: "plain", arguments: { a: 1 } }).valid).toBe(false);
  });
});
