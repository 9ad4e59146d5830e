// Tests the coercion of values to their schemas: which values are changed, and which never are.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { CoerceOptions } from "../../../src/host/json-schema/coercion/coerce.ts";
import { compileSchema } from "../../../src/host/json-schema/compile-schema.ts";

const PRUNE: CoerceOptions = { unknownKeys: "prune", coerce: false };
const COERCE: CoerceOptions = { unknownKeys: "keep", coerce: true };
const BOTH: CoerceOptions = { unknownKeys: "prune", coerce: true };

function coerce(schema: unknown, value: unknown, options: CoerceOptions): unknown[] {
  const compiled = compileSchema(schema);
  const before = JSON.stringify(value);
  const outcome = compiled.coerce(value, options);
  expect(JSON.stringify(value)).toBe(before);
  const changes = outcome.coercions.map((each) =>
    each.kind === "pruned" ? `-${each.pointer}` : `${each.pointer}: ${each.from} → ${each.to}`,
  );
  return [outcome.value, ...changes, ...outcome.unknown.map((pointer) => `?${pointer}`)];
}

const point = { type: "object", properties: { x: { type: "number" }, y: { type: "number" } }, required: ["x"] };

describe("CompiledSchema.coerce() prunes", () => {
  test.for<[string, unknown, unknown, unknown[]]>([
    ["unnamed members of an object", point, { x: 1, z: 2 }, [{ x: 1 }, "-/z"]],
    ["nothing if the schema names no members", { type: "object" }, { a: 1 }, [{ a: 1 }]],
    [
      "nothing if additional members are allowed",
      { ...point, additionalProperties: true },
      { x: 1, z: 2 },
      [{ x: 1, z: 2 }],
    ],
    ["nothing of a map", { type: "object", additionalProperties: { type: "number" } }, { a: 1 }, [{ a: 1 }]],
    ["all members if properties is empty", { type: "object", properties: {} }, { a: 1 }, [{}, "-/a"]],
    [
      "all members if additional ones are forbidden",
      { type: "object", additionalProperties: false },
      { a: 1 },
      [{}, "-/a"],
    ],
    [
      "in items, and in values of a map",
      { type: "object", properties: { list: { type: "array", items: point }, map: { additionalProperties: point } } },
      { list: [{ x: 1, a: 1 }, { x: 2 }], map: { "a/b": { x: 1, "~": 1 } } },
      [{ list: [{ x: 1 }, { x: 2 }], map: { "a/b": { x: 1 } } }, "-/list/0/a", "-/map/a~1b/~0"],
    ],
    [
      "in tuples",
      { prefixItems: [point], items: { type: "object", properties: {} } },
      [{ x: 1, a: 1 }, { b: 1 }],
      [[{ x: 1 }, {}], "-/0/a", "-/1/b"],
    ],
    [
      "through $ref, recursively",
      { $ref: "#/$defs/tree", $defs: { tree: { properties: { kids: { items: { $ref: "#/$defs/tree" } } } } } },
      { kids: [{ kids: [{ a: 1 }] }], b: 1 },
      [{ kids: [{ kids: [{}] }] }, "-/kids/0/kids/0/a", "-/b"],
    ],
    [
      "members that no part of an allOf names",
      { allOf: [point, { properties: { name: { type: "string" } } }] },
      { x: 1, name: "n", a: 1 },
      [{ x: 1, name: "n" }, "-/a"],
    ],
    [
      "by the branch that matches",
      { oneOf: [{ properties: { kind: { const: "a" }, a: {} } }, { properties: { kind: { const: "b" }, b: {} } }] },
      { kind: "b", a: 1, b: 2 },
      [{ kind: "b", b: 2 }, "-/a"],
    ],
    [
      "by all matching branches of an anyOf",
      { properties: { id: {} }, anyOf: [{ properties: { a: {} } }, { properties: { b: {} } }] },
      { id: 1, a: 1, b: 2, c: 3 },
      [{ id: 1, a: 1, b: 2 }, "-/c"],
    ],
    [
      "by the branch that matches without the unnamed members",
      {
        anyOf: ["a", "b"].map((kind) => ({
          type: "object",
          properties: { kind: { const: kind }, [kind]: {} },
          required: ["kind"],
          additionalProperties: false,
        })),
      },
      { kind: "b", b: 1, c: 2 },
      [{ kind: "b", b: 1 }, "-/c"],
    ],
    [
      "no members that a pattern or a condition names",
      {
        properties: { a: {} },
        patternProperties: { "^x-": {} },
        if: { required: ["a"] },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { properties: { b: {} } },
        else: { properties: { c: {} } },
      },
      { a: 1, b: 2, c: 3, "x-d": 4 },
      [{ a: 1, b: 2, "x-d": 4 }, "-/c"],
    ],
    ["a key __proto__ like any other", point, JSON.parse('{"x":1,"__proto__":{"y":1}}'), [{ x: 1 }, "-/__proto__"]],
    ["nothing of a value that is not an object", point, [{ z: 1 }], [[{ z: 1 }]]],
  ])("%s", ([, schema, value, expected]) => {
    expect(coerce(schema, value, PRUNE)).toEqual(expected);
  });

  test("nothing with unknownKeys: reject, and lists the unknown members", () => {
    expect(coerce(point, { x: 1, a: 1, b: 1 }, { unknownKeys: "reject", coerce: false })).toEqual([
      { x: 1, a: 1, b: 1 },
      "?/a",
      "?/b",
    ]);
  });
});

describe("CompiledSchema.coerce() coerces", () => {
  const of = (member: unknown): unknown => ({ properties: { v: member } });
  test.for<[string, unknown, unknown, unknown]>([
    ["text of a number", { type: "number" }, "3", 3],
    ["text of a fraction", { type: "number" }, "-0.25e2", -25],
    ["text of an integer", { type: "integer" }, "3", 3],
    ["text of a large integer", { type: "integer" }, "9007199254740991", 9007199254740991],
    ["true and false", { type: "boolean" }, "True", true],
    ["a number for text", { type: "string" }, 3.5, "3.5"],
    ["a boolean for text", { type: "string" }, false, "false"],
    ["null as text", { type: "null" }, "null", null],
    ["a value of an enum without a type", { enum: [1, 2] }, "2", 2],
    ["a constant", { const: "7" }, 7, "7"],
    ["JSON of an object", { type: "object", properties: { n: { type: "number" } } }, '{"n":"1"}', { n: 1 }],
    ["JSON of a list", { type: "array", items: { type: "number" } }, "[1,2]", [1, 2]],
    ["one value for a list", { type: "array", items: { type: "number" } }, "7", [7]],
    ["one object for a list of them", { type: "array", items: point }, { x: 1 }, [{ x: 1 }]],
    ["a value to the matching branch of a union", { anyOf: [{ type: "boolean" }, { type: "number" }] }, "3", 3],
    ["a null for an optional member", { type: "string" }, null, undefined],
  ])("%s", ([, schema, value, expected]) => {
    const compiled = compileSchema(of(schema));
    const outcome = compiled.coerce({ v: value }, COERCE);
    expect(outcome.value).toEqual(expected === undefined ? {} : { v: expected });
    expect(outcome.coercions[0]).toMatchObject({ kind: "coerced", pointer: "/v" });
    expect(compiled.validate(outcome.value)).toEqual({ valid: true });
  });

  test.for<[string, unknown, unknown]>([
    ["a number that a double cannot represent", { type: "number" }, "0.12345678901234567"],
    ["an integer beyond the safe integers", { type: "integer" }, "9007199254740993"],
    ["a fraction for an integer", { type: "integer" }, "3.5"],
    ["a number for an integer", { type: "integer" }, 3.5],
    ["text that only begins with a number", { type: "number" }, "3 apples"],
    ["hexadecimal", { type: "number" }, "0x10"],
    ["empty text for a number", { type: "number" }, ""],
    ["1 for true", { type: "boolean" }, 1],
    ["yes for true", { type: "boolean" }, "yes"],
    ["a value that would violate another keyword", { type: "number", maximum: 2 }, "3"],
    ["a number that may have lost digits, for text", { type: "string" }, 12345678901234567000],
    ["a number beyond the safe integers, for text", { type: "string" }, 1e21],
    ["a fraction of too many digits, for text", { type: "string" }, 0.12345678901234566],
    ["an object for text", { type: "string" }, { a: 1 }],
    ["a list for one value", { type: "number" }, [3]],
    ["a null that the schema allows", { type: ["string", "null"] }, null],
    ["text where text is allowed", { type: ["string", "number"] }, "3"],
    ["JSON in text where text is allowed", { type: "string" }, "[1]"],
  ])("does not coerce %s", ([, schema, value]) => {
    const given = { v: value };
    const outcome = compileSchema(of(schema)).coerce(given, COERCE);
    expect(outcome.value).toBe(given);
    expect(outcome.coercions).toEqual([]);
  });

  test("keeps a null that is required, and with nullsOnly coerces nothing else", () => {
    expect(coerce(point, { x: null, y: null }, COERCE)).toEqual([{ x: null }, "/y: null → nothing"]);
    expect(coerce(point, { x: "1", y: null }, { ...COERCE, nullsOnly: true })).toEqual([
      { x: "1" },
      "/y: null → nothing",
    ]);
  });

  test("prunes also in values that it has converted", () => {
    expect(coerce({ properties: { p: point } }, { p: '{"x":"1","a":2}' }, BOTH)).toEqual([
      { p: { x: 1 } },
      "/p: string → object",
      "/p/x: string → number",
      "-/p/a",
    ]);
  });
});

describe("CompiledSchema.coerce()", () => {
  const scalar = fc.oneof(fc.integer(), fc.double({ noNaN: true }), fc.boolean(), fc.string(), fc.constant(null));
  const scalarSchema = fc.constantFrom<unknown>(
    ...[{ type: "string" }, { type: "number" }, { type: "integer" }, { type: "boolean" }, { type: ["number", "null"] }],
    ...[{ enum: ["a", 1, true] }, {}, { anyOf: [{ type: "number" }, { type: "boolean" }] }],
  );
  const { schema: anySchema } = fc.letrec<{ schema: unknown; object: unknown }>((tie) => ({
    schema: fc.oneof(
      { depthSize: "small" },
      scalarSchema,
      tie("object"),
      tie("schema").map((items) => ({ type: "array", items })),
      fc.tuple(tie("object"), tie("object")).map((anyOf) => ({ anyOf })),
      fc.tuple(tie("object"), tie("object")).map((allOf) => ({ allOf })),
    ),
    object: fc
      .record({
        properties: fc.dictionary(fc.constantFrom("a", "b", "c"), tie("schema"), { maxKeys: 3 }),
        required: fc.subarray(["a", "b"]),
        additionalProperties: fc.constantFrom(undefined, false, true),
      })
      .map((parts) => JSON.parse(JSON.stringify({ type: "object", ...parts })) as unknown),
  }));
  const anyValue = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      scalar,
      fc.constantFrom("3", "true", "null", "[1]", '{"a":1}'),
      fc.dictionary(fc.constantFrom("a", "b", "c", "d"), tie("value"), { maxKeys: 4 }),
      fc.array(tie("value"), { maxLength: 3 }),
    ),
  })).value;

  test("changes no valid value by coercing, and makes none invalid", () => {
    fc.assert(
      fc.property(anySchema, anyValue, (schema, value) => {
        const compiled = compileSchema(schema);
        const { value: coerced, coercions } = compiled.coerce(value, COERCE);
        if (compiled.validate(value).valid) {
          expect(coerced).toBe(value);
          expect(coercions).toEqual([]);
        }
        if (coercions.length === 0) expect(coerced).toBe(value);
        else expect(JSON.stringify(coerced)).not.toBe(JSON.stringify(value));
      }),
      { numRuns: 500 },
    );
  });

  test("does not change its own result a second time, if that is valid", () => {
    fc.assert(
      fc.property(anySchema, anyValue, (schema, value) => {
        const compiled = compileSchema(schema);
        const { value: coerced } = compiled.coerce(value, BOTH);
        if (!compiled.validate(coerced).valid) return;
        expect(compiled.coerce(coerced, BOTH).value).toEqual(coerced);
      }),
      { numRuns: 500 },
    );
  });

  test("stops without changes if it takes too long or needs too many changes", () => {
    const many = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`k${index}`, 1]));
    expect(compileSchema(point).coerce(many, PRUNE)).toEqual({
      value: many,
      coercions: [],
      unknown: [],
      stopped: true,
    });
    const branch = (depth: number): unknown =>
      depth === 0 ? { type: "number", minimum: 10 } : { anyOf: Array.from({ length: 4 }, () => branch(depth - 1)) };
    const outcome = compileSchema({ type: "array", items: branch(5) }).coerce(Array(200).fill("1"), COERCE);
    expect([outcome.coercions, outcome.stopped]).toEqual([[], true]);
  });

  test("does not copy an object with more unknown keys than it can remove", () => {
    const many = JSON.parse(
      `{${Array.from({ length: 200_000 }, (_, index) => `"k${index}":${index}`).join(",")}}`,
    ) as Record<string, unknown>;
    const schema = compileSchema(point);
    const cpuMs = (run: () => unknown): number => {
      const started = process.cpuUsage();
      run();
      const { user, system } = process.cpuUsage(started);
      return (user + system) / 1_000;
    };
    const rounds = Array.from({ length: 3 }, () => ({
      copying: cpuMs(() => new Map(Object.entries(many))),
      coercing: cpuMs(() => expect(schema.coerce(many, PRUNE).stopped).toBe(true)),
    }));
    expect(rounds.some(({ copying, coercing }) => coercing * 2 < copying)).toBe(true);
  });
});
