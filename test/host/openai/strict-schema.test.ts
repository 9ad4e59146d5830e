import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compileSchema } from "../../../src/host/json-schema/compile-schema.ts";
import { toStrictSchema } from "../../../src/host/openai/index.ts";

const object = (properties: object, more: object = {}) => ({ type: "object", properties, ...more });
const strictOf = (schema: object) => toStrictSchema(schema as never);
const text = { type: "string" };

describe("toStrictSchema()", () => {
  test.for<[string, object, object]>([
    [
      "closes objects",
      object({ a: text }, { required: ["a"] }),
      object({ a: text }, { required: ["a"], additionalProperties: false }),
    ],
    [
      "makes optional properties nullable",
      object({ a: text }),
      object({ a: { type: ["string", "null"] } }, { required: ["a"], additionalProperties: false }),
    ],
    [
      "adds null to an enum",
      object({ a: { enum: ["x"] } }),
      object({ a: { type: ["string", "null"], enum: ["x", null] } }, { required: ["a"], additionalProperties: false }),
    ],
    [
      "keeps an existing null",
      object({ a: { type: ["string", "null"] } }),
      object({ a: { type: ["string", "null"] } }, { required: ["a"], additionalProperties: false }),
    ],
    [
      "converts oneOf to anyOf",
      object({ a: { oneOf: [text, { type: "number" }] } }, { required: ["a"] }),
      object({ a: { anyOf: [text, { type: "number" }] } }, { required: ["a"], additionalProperties: false }),
    ],
    [
      "infers a type from a constant",
      object({ a: { const: 1 } }, { required: ["a"] }),
      object({ a: { type: "number", const: 1 } }, { required: ["a"], additionalProperties: false }),
    ],
    [
      "drops annotations",
      object({ a: { ...text, title: "A", default: "x", examples: ["y"] } }, { required: ["a"], $schema: "x" }),
      object({ a: text }, { required: ["a"], additionalProperties: false }),
    ],
    ["accepts an object without properties", object({}), object({}, { required: [], additionalProperties: false })],
    [
      "keeps documented bounds and formats",
      object({ a: { type: "number", minimum: 1 }, b: { ...text, format: "uuid" } }, { required: ["a", "b"] }),
      object(
        { a: { type: "number", minimum: 1 }, b: { ...text, format: "uuid" } },
        { required: ["a", "b"], additionalProperties: false },
      ),
    ],
    [
      "converts recursive schemas",
      {
        ...object({ kids: { type: "array", items: { $ref: "#/$defs/node" } } }, { required: ["kids"] }),
        $defs: { node: object({ next: { $ref: "#" } }) },
      },
      {
        ...object(
          { kids: { type: "array", items: { $ref: "#/$defs/node" } } },
          { required: ["kids"], additionalProperties: false },
        ),
        $defs: {
          node: object(
            { next: { anyOf: [{ $ref: "#" }, { type: "null" }] } },
            { required: ["next"], additionalProperties: false },
          ),
        },
      },
    ],
  ])("%s", ([, schema, expected]) => {
    expect(strictOf(schema)).toMatchObject({ strict: true, schema: expected });
  });

  const nest = (depth: number): object => (depth === 0 ? text : object({ a: nest(depth - 1) }));
  test.for<[string, object, RegExp]>([
    ["a root that is not an object", { type: "array", items: text }, /object at the root/],
    ["a union at the root", { type: "object", anyOf: [object({})] }, /anyOf is not supported at the root/],
    ["additional properties", object({ a: text }, { additionalProperties: true }), /additional properties cannot/],
    [
      "a map",
      object({ a: { type: "object", additionalProperties: text } }),
      /\/properties\/a\/additionalProperties: additional/,
    ],
    ["any object", object({ a: { type: "object" } }), /\/properties\/a: an object with unnamed/],
    ["anything", object({ a: {} }), /requires a type/],
    ["allOf", object({ a: { allOf: [text, text] } }), /allOf is not supported/],
    ["not", object({ a: { ...text, not: { const: "x" } } }), /not is not supported/],
    ["a length", object({ a: { ...text, minLength: 1 } }), /minLength is not supported/],
    ["a custom format", object({ a: { ...text, format: "iban" } }), /format "iban"/],
    ["a pattern that looks ahead", object({ a: { ...text, pattern: "^(?!x)" } }), /pattern is not supported/],
    ["a tuple", object({ a: { type: "array", prefixItems: [text], items: text } }), /prefixItems/],
    ["an array of anything", object({ a: { type: "array" } }), /requires items/],
    ["too deep", nest(12), /nested more than 10 levels/],
    [
      "too many properties",
      object(Object.fromEntries(Array.from({ length: 5_001 }, (_, index) => [`p${index}`, text]))),
      /5,000 properties/,
    ],
    [
      "too many enum values",
      object({ a: { enum: Array.from({ length: 1_001 }, (_, index) => `v${index}`) } }),
      /1,000 enum/,
    ],
    [
      "a long enum",
      object({ a: { enum: Array.from({ length: 300 }, (_, index) => `${index}`.padEnd(60, "x")) } }),
      /15,000 characters/,
    ],
    ["too long names", object({ ["x".repeat(120_001)]: text }), /120,000 characters/],
    ["a reference elsewhere", object({ a: { $ref: "#/properties/b" }, b: text }), /\$ref must be/],
    ["a required key without a schema", object({ a: text }, { required: ["b"] }), /required property is not defined/],
  ])("returns the reason for %s", ([, schema, reason]) => {
    const made = strictOf(schema);
    expect(made).toMatchObject({ strict: false, reason: expect.stringMatching(reason) });
  });

  test("requires nothing that the schema rejects, once nulls of optional properties are removed", () => {
    const scalar = fc.constantFrom<object>(
      text,
      { type: "integer" },
      { enum: ["x", 1] },
      { type: ["boolean", "null"] },
    );
    const schema = fc.letrec<{ any: object }>((tie) => ({
      any: fc.oneof(
        { depthSize: "small" },
        scalar,
        fc
          .record({ properties: fc.dictionary(fc.constantFrom("a", "b", "c"), tie("any")), required: fc.constant([]) })
          .map((parts) => ({ type: "object", ...parts })),
        tie("any").map((items) => ({ type: "array", items })),
      ),
    })).any;
    /** Fills a value in like a strict decoder: every key is present, with null where it is allowed. */
    const fill = (made: { [key: string]: unknown }): unknown => {
      const types = [made.type].flat();
      if (types.includes("null")) return null;
      if (Array.isArray(made.enum)) return made.enum[0];
      if (types.includes("object"))
        return Object.fromEntries(Object.entries(made.properties as object).map(([key, part]) => [key, fill(part)]));
      if (types.includes("array")) return [fill(made.items as never)];
      return types.includes("string") ? "x" : 1;
    };
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom("p", "q"), schema), (properties) => {
        const given = object(properties);
        const strict = strictOf(given);
        if (!strict.strict) return;
        const compiled = compileSchema(given);
        const { value } = compiled.coerce(fill(strict.schema), { unknownKeys: "keep", coerce: true, nullsOnly: true });
        expect(compiled.validate(value)).toEqual({ valid: true });
      }),
      { numRuns: 200 },
    );
  });
});
