// compileSchema(): which schemas are rejected, which values pass, and which issues are reported.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { compileSchema } from "../../../src/host/json-schema/compile-schema.ts";
import type { SchemaIssue } from "../../../src/host/json-schema/outcome.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";

function problemsOf(schema: unknown, value: unknown): readonly SchemaIssue[] {
  const outcome = compileSchema(schema).validate(value);
  if (outcome.valid || outcome.stopped) throw new Error(`Expected problems, got ${JSON.stringify(outcome)}`);
  return outcome.issues;
}

function rejectionOf(schema: unknown): ToolError {
  try {
    compileSchema(schema);
  } catch (error) {
    if (error instanceof ToolError) return error;
    throw error;
  }
  throw new Error("Expected the schema to be rejected");
}

const nested = (levels: number): unknown => (levels === 0 ? {} : { not: nested(levels - 1) });

describe("compileSchema()", () => {
  test.for<[string, unknown, string]>([
    ["a number", 3, ""],
    ["null", null, ""],
    ["an unknown type", { properties: { a: { type: "strin" } } }, "/properties/a/type"],
    ["an empty list of types", { type: [] }, "/type"],
    ["properties that are a list", { properties: [] }, "/properties"],
    ["a property that is not a schema", { properties: { "x/y": 1 } }, "/properties/x~1y"],
    ["required that is not a list", { required: "a" }, "/required"],
    ["required that contains a number", { required: [1] }, "/required"],
    ["a negative length", { minLength: -1 }, "/minLength"],
    ["a divisor of 0", { multipleOf: 0 }, "/multipleOf"],
    ["a pattern that is not a regex", { pattern: "(" }, "/pattern"],
    ["a patternProperties key that is not a regex", { patternProperties: { "(": {} } }, "/patternProperties/("],
    ["a pattern with groups nested too deeply", { pattern: "(".repeat(17) + ")".repeat(17) }, "/pattern"],
    ["a pattern that is too long", { pattern: "a".repeat(2_049) }, "/pattern"],
    ["a pattern with huge repeats", { pattern: "(?:a{200}){200}" }, "/pattern"],
    ["huge repeats hidden in a lookahead", { pattern: "(?=(?:a{200}){200})" }, "/pattern"],
    ["a $ref without a target", { $ref: "#/$defs/none" }, "/$ref"],
    ["a $ref to an inherited property", { $ref: "#/constructor" }, "/$ref"],
    ["a $ref to a value that is not a schema", { $ref: "#/required", required: [] }, "/$ref"],
    ["a remote $ref", { $ref: "https://example.com/schema.json" }, "/$ref"],
    ["a $ref to a file", { $ref: "file:///etc/passwd" }, "/$ref"],
    ["a $ref that is remote because of $id", { $id: "https://example.com/a/", $ref: "b.json" }, "/$ref"],
    ["a $ref to the metaschema", { $ref: "https://json-schema.org/draft/2020-12/schema" }, "/$ref"],
    ["a $ref that is not a URI", { $ref: "http://[" }, "/$ref"],
    ["a $ref to an unknown anchor", { $ref: "#nope" }, "/$ref"],
    ["a $dynamicRef without a target", { $dynamicRef: "#nope" }, "/$dynamicRef"],
    ["a $ref to itself", { $ref: "#" }, ""],
    [
      "$refs in a cycle",
      { $ref: "#/$defs/a", $defs: { a: { anyOf: [{ $ref: "#/$defs/b" }] }, b: { $ref: "#/$defs/a" } } },
      "*",
    ],
    ["two parts with one $id", { $defs: { a: { $id: "x:/a" }, b: { $id: "x:/a" } } }, "/$defs/b"],
    ["two parts with one anchor", { $defs: { a: { $anchor: "a" }, b: { $anchor: "a" } } }, "/$defs/b"],
    ["an unknown dialect", { $schema: "https://example.com/my-dialect" }, "/$schema"],
    ["NaN", { minimum: Number.NaN }, "/minimum"],
    ["a function", { default: () => 1 }, "/default"],
    ["too many levels", nested(129), ""],
    ["too many bytes", { description: "x".repeat(256 * 1024) }, ""],
    ["too many values", { enum: Array(10_001).fill(0) }, ""],
    ["too many \\p classes in total", { anyOf: Array(6).fill({ pattern: "\\p{L}".repeat(20) }) }, "/anyOf/5/pattern"],
    ["too many parts with an $id", { allOf: Array.from({ length: 100 }, (_, i) => ({ $id: `x:/${i}` })) }, "/allOf/99"],
  ])("rejects %s", ([, schema, pointer]) => {
    const error = rejectionOf(schema);
    expect(error.code).toBe("BUNDLE_FAILED");
    expect(error.details).toHaveProperty("expected");
    if (pointer !== "*") expect(error.details?.schemaPointer).toBe(pointer);
  });

  test("rejects a cyclic object without overflowing the stack", () => {
    const schema: Record<string, unknown> = {};
    schema.not = schema;
    expect(rejectionOf(schema).code).toBe("BUNDLE_FAILED");
  });

  test("takes the code and the subject of its error from the caller", () => {
    expect(() => compileSchema({ type: 1 }, { code: "PARAM_INVALID", subject: "outputSchema" })).toThrow(
      expect.objectContaining({ code: "PARAM_INVALID", message: expect.stringContaining("outputSchema") }),
    );
  });

  test("does not change the schema, and is independent of later changes", () => {
    const schema = { type: "object", properties: { a: { $ref: "#/$defs/a" } }, $defs: { a: { type: "number" } } };
    const before = structuredClone(schema);
    const compiled = compileSchema(Object.freeze(schema));
    expect(schema).toEqual(before);
    expect(Reflect.ownKeys(schema.$defs.a)).toEqual(["type"]);
    schema.$defs.a.type = "string";
    expect(compiled.validate({ a: 1 }).valid).toBe(true);
  });
});

/** [schema, values that pass, values that fail] */
const CASES: readonly [string, unknown, readonly unknown[], readonly unknown[]][] = [
  ["true and false", { properties: { a: true, b: false } }, [{ a: 1 }, {}], [{ b: 1 }]],
  ["integer", { type: "integer" }, [1, 1.0, -0, 1e20], [1.5, "1", null]],
  ["a list of types", { type: ["string", "null"] }, ["", null], [1, {}]],
  ["const", { const: { a: [1, { b: null }] } }, [{ a: [1, { b: null }] }], [{ a: [1] }, { a: [1, { b: null }], c: 1 }]],
  ["enum", { enum: ["a", 1, [1], { x: 1 }] }, ["a", 1, [1], { x: 1 }], ["1", "b", [2], { x: 2 }, true]],
  ["bounds", { minimum: 1, exclusiveMaximum: 3 }, [1, 2.9, "x"], [0, 3]],
  ["multipleOf in decimal", { multipleOf: 0.01 }, [0.07, 1.13, 4], [0.075]],
  ["multipleOf with a huge value", { multipleOf: 0.123456789 }, [0], [1e308]],
  ["lengths in code points", { minLength: 2, maxLength: 2 }, ["ab", "😀😀", "e\u0301"], ["a", "😀", "abc"]],
  ["pattern", { pattern: "^\\p{L}+$" }, ["é", 3], ["1"]],
  ["a pattern that the u flag forbids", { pattern: "^[\\w-\\.]+$" }, ["a-b.c"], ["a b"]],
  [
    "required names of every kind",
    { required: ["__proto__", "constructor", "hasOwnProperty"] },
    [JSON.parse('{"__proto__":1,"constructor":1,"hasOwnProperty":1}')],
    [{}, { constructor: 1 }],
  ],
  [
    "properties named constructor",
    { properties: { constructor: { type: "string" } }, additionalProperties: false },
    [{}, { constructor: "x" }],
    [{ constructor: 1 }, { toString: 1 }],
  ],
  [
    "properties named __proto__",
    JSON.parse('{"properties":{"__proto__":{"type":"string"}},"additionalProperties":false}'),
    [JSON.parse('{"__proto__":"a"}'), {}],
    [JSON.parse('{"__proto__":1}')],
  ],
  [
    "patternProperties",
    { patternProperties: { "^s_": { type: "string" } }, additionalProperties: { type: "number" } },
    [{ s_a: "", b: 1 }],
    [{ s_a: 1 }, { b: "" }],
  ],
  ["propertyNames", { propertyNames: { maxLength: 2 } }, [{ ab: 1 }], [{ abc: 1 }]],
  ["dependentRequired", { dependentRequired: { a: ["b"] } }, [{ a: 1, b: 1 }, {}], [{ a: 1 }]],
  [
    "dependencies of draft-07",
    { dependencies: { a: ["b"], c: { required: ["d"] } } },
    [
      { a: 1, b: 1 },
      { c: 1, d: 1 },
    ],
    [{ a: 1 }, { c: 1 }],
  ],
  ["prefixItems and items", { prefixItems: [{ type: "number" }], items: false }, [[], [1]], [["a"], [1, 2]]],
  [
    "items as a list",
    { items: [{ type: "number" }], additionalItems: { type: "string" } },
    [[1, "a"]],
    [["a"], [1, 2]],
  ],
  ["contains", { contains: { type: "number" }, maxContains: 1 }, [["a", 1]], [[], ["a"], [1, 2]]],
  ["minContains 0", { contains: { type: "number" }, minContains: 0 }, [[], ["a"]], []],
  [
    "uniqueItems",
    { uniqueItems: true },
    [[1, "1", true, [1], { a: 1 }, null]],
    [
      [1, 1],
      [
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ],
      [[], []],
    ],
  ],
  [
    "allOf, anyOf, not",
    { allOf: [{ minimum: 1 }, { maximum: 5 }], anyOf: [{ const: 2 }, { minimum: 3 }], not: { const: 4 } },
    [2, 3, 5],
    [1, 4, 6],
  ],
  ["oneOf", { oneOf: [{ multipleOf: 2 }, { multipleOf: 3 }] }, [2, 3], [1, 6]],
  [
    "if, then, else",
    JSON.parse('{"if":{"minimum":10},"then":{"multipleOf":10},"else":{"maximum":5}}'),
    [20, 5],
    [11, 6],
  ],
  [
    "unevaluatedProperties through $ref",
    {
      $ref: "#/$defs/a",
      properties: { b: true },
      unevaluatedProperties: false,
      $defs: { a: { properties: { a: true } } },
    },
    [{ a: 1, b: 1 }],
    [{ c: 1 }],
  ],
  ["unevaluatedItems with contains", { contains: { type: "number" }, unevaluatedItems: false }, [[1]], [[1, "a"]]],
  [
    "a tree by $ref",
    { type: "object", properties: { next: { $ref: "#" } }, additionalProperties: false },
    [{ next: { next: {} } }],
    [{ next: { nxt: {} } }],
  ],
  [
    "$ref under an unknown keyword",
    { $ref: "#/components/schemas/a~1b%25", components: { schemas: { "a/b%": { type: "string" } } } },
    ["x"],
    [1],
  ],
  [
    "$id and a relative $ref",
    { $id: "https://x.test/a", $ref: "b#c", $defs: { b: { $id: "b", $defs: { c: { $anchor: "c", const: 1 } } } } },
    [1],
    [2],
  ],
  [
    "urn $id",
    { $id: "urn:uuid:deadbeef-1234-00ff-ff00-4321feebdaed", $ref: "#/$defs/a", $defs: { a: { const: 1 } } },
    [1],
    [2],
  ],
  [
    "$dynamicRef",
    {
      $id: "https://x.test/ext",
      $ref: "tree",
      $dynamicAnchor: "node",
      unevaluatedProperties: false,
      $defs: {
        tree: {
          $id: "tree",
          $dynamicAnchor: "node",
          properties: { v: true, kids: { items: { $dynamicRef: "#node" } } },
        },
      },
    },
    [{ kids: [{ v: 1 }] }],
    [{ kids: [{ w: 1 }] }],
  ],
  [
    "$recursiveRef of 2019-09",
    {
      $schema: "https://json-schema.org/draft/2019-09/schema",
      properties: { a: { $recursiveRef: "#" } },
      additionalProperties: false,
    },
    [{ a: { a: {} } }],
    [{ a: { b: 1 } }],
  ],
  [
    "draft-07, where $ref hides its siblings",
    {
      $schema: "http://json-schema.org/draft-07/schema#",
      properties: { a: { $ref: "#/definitions/n", maximum: 1 } },
      definitions: { n: { type: "number" } },
    },
    [{ a: 5 }],
    [{ a: "x" }],
  ],
  [
    "draft-04's exclusiveMinimum",
    { $schema: "http://json-schema.org/draft-04/schema#", minimum: 1, exclusiveMinimum: true },
    [2],
    [1],
  ],
  ["format email", { format: "email" }, ["a@example.com", 5], ["a@", "@b.c"]],
  ["format date-time", { format: "date-time" }, ["2026-01-31T10:00:00Z"], ["2026-02-30T10:00:00Z", "now"]],
  ["format uuid", { format: "uuid" }, ["7f3c1f1e-0b6f-4c8e-9a3e-2f7f1e0b6f4c"], ["7f3c"]],
  [
    "unknown formats, inherited names too",
    { allOf: [{ format: "__proto__" }, { format: "constructor" }, { format: "color" }] },
    ["x"],
    [],
  ],
];

describe("CompiledSchema", () => {
  test.for<[unknown, boolean]>([
    [true, true],
    [{}, true],
    [{ type: "object", required: ["a"], description: "x", default: {} }, true],
    [{ type: "object", properties: {} }, false],
    [{ maxProperties: 1 }, false],
    [{ $ref: "#/$defs/a", $defs: { a: {} } }, false],
    [{ unknown: 1 }, false],
  ])("of %j has shallow: %s", ([schema, shallow]) => {
    expect(compileSchema(schema).shallow).toBe(shallow);
  });

  test("is equal when it is compiled from its own text", () => {
    const schema = JSON.parse('{"properties":{"__proto__":{"const":1},"a":{"$ref":"#/$defs/b"}},"$defs":{"b":false}}');
    const compiled = compileSchema(schema);
    expect(JSON.parse(compiled.toText())).toEqual(schema);
    const again = compileSchema(JSON.parse(compiled.toText()));
    for (const value of [{ a: 1 }, JSON.parse('{"__proto__":2}'), {}]) {
      expect(again.validate(value)).toEqual(compiled.validate(value));
    }
  });
});

describe("CompiledSchema.validate()", () => {
  test.for(CASES)("checks %s", ([, schema, valid, invalid]) => {
    const compiled = compileSchema(schema);
    for (const value of valid) expect([value, compiled.validate(value)]).toEqual([value, { valid: true }]);
    for (const value of invalid) {
      const outcome = compiled.validate(value);
      expect([value, outcome.valid]).toEqual([value, false]);
      if (outcome.valid || outcome.stopped) throw new Error("Expected problems");
      expect(outcome.issues.length).toBeGreaterThan(0);
    }
  });

  test.for<[unknown, unknown, Partial<SchemaIssue>]>([
    [
      { type: "number" },
      "abc",
      {
        pointer: "",
        keyword: "type",
        expected: "number",
        got: 'string "abc"',
        message: 'Expected number, got string "abc"',
      },
    ],
    [
      { properties: { a: { type: ["string", "null"] } } },
      { a: 1 },
      { pointer: "/a", expected: "string or null", got: "number 1" },
    ],
    [{ required: ["a"] }, {}, { pointer: "", keyword: "required", expected: 'property "a"', got: "missing" }],
    [{ enum: ["a", 1, null] }, "b", { expected: 'one of "a", 1, null', got: 'string "b"' }],
    [{ const: 5 }, 6, { expected: "5", got: "number 6" }],
    [{ minimum: 3 }, 1, { expected: "a number of at least 3", got: "number 1" }],
    [
      { items: { items: { maxLength: 1 } } },
      [[], ["ab"]],
      { pointer: "/1/0", expected: "a string of at most 1 character", got: '2 characters: "ab"' },
    ],
    [{ properties: { "a/b~c": { type: "null" } } }, { "a/b~c": [] }, { pointer: "/a~1b~0c", got: "array of 0 items" }],
    [
      { properties: { name: true, age: true }, additionalProperties: false },
      { nmae: 1 },
      {
        pointer: "/nmae",
        keyword: "additionalProperties",
        expected: 'no property "nmae" (allowed: "name", "age"; did you mean "name"?)',
      },
    ],
    [{ uniqueItems: true }, [1, 2, 1], { expected: "items that all differ", got: "equal items at 0 and 2" }],
    [
      { anyOf: [{ type: "string" }, { type: "number" }] },
      true,
      { keyword: "anyOf", expected: "one of string, number", got: "boolean true" },
    ],
    [
      { anyOf: [{ type: "string" }, { type: "object", required: ["a"] }] },
      {},
      { pointer: "", keyword: "required", expected: 'property "a"' },
    ],
    [
      { oneOf: [{ type: "number" }, { type: "integer" }] },
      1,
      { keyword: "oneOf", got: "number 1, which matches several" },
    ],
    [{ not: { type: "string" } }, "x", { expected: "anything but string" }],
    [{ pattern: "^a" }, "b\n\u0000", { expected: 'a string matching "^a"', got: 'string "b\\n\\u0000"' }],
  ])("with the schema %j reports the issue of %j", ([schema, value, problem]) => {
    expect(problemsOf(schema, value)).toEqual([expect.objectContaining(problem)]);
  });

  test("reports the issues of the intended branch of a tagged union", () => {
    const union = z.discriminatedUnion("kind", [
      z.object({ kind: z.literal("circle"), radius: z.number() }),
      z.object({ kind: z.literal("square"), side: z.number() }),
    ]);
    const schema = z.toJSONSchema(z.array(union));
    expect(problemsOf(schema, [{ kind: "circle", radius: "1" }])).toEqual([
      expect.objectContaining({ pointer: "/0/radius", keyword: "type" }),
    ]);
    expect(problemsOf(schema, [{ kind: "oval" }])).toEqual([
      expect.objectContaining({ pointer: "/0", expected: expect.stringContaining('"kind": "square"') }),
    ]);
  });

  test("lists every issue once, for the innermost values", () => {
    const schema = {
      type: "object",
      properties: { a: { type: "string" }, b: { items: { minimum: 2 } } },
      required: ["c"],
      additionalProperties: false,
    };
    const problems = problemsOf(schema, { a: 1, b: [1, 2, 0], d: 1 });
    expect(problems.map((problem) => `${problem.pointer} ${problem.keyword}`)).toEqual([
      " required",
      "/a type",
      "/b/0 minimum",
      "/b/2 minimum",
      "/d additionalProperties",
    ]);
  });

  test("lists 50 issues, or maxIssues, and reports that there are more", () => {
    const compiled = compileSchema({ items: { type: "string" } });
    const values = Array(200_000).fill(1);
    const some = compiled.validate(values);
    const few = compiled.validate(values, { maxIssues: 3 });
    expect(some).toMatchObject({ stopped: false, truncated: true });
    expect("issues" in some && some.issues.length).toBe(50);
    expect("issues" in few && few.issues.length).toBe(3);
  });

  test("keeps every text short for any schema and value", () => {
    const long = "k".repeat(50_000);
    const schema = {
      properties: { [long]: { enum: [long, long] } },
      required: [`${long}!`],
      additionalProperties: false,
    };
    for (const problem of problemsOf(schema, { [long]: long, extra: long })) {
      expect(problem.pointer.length).toBeLessThanOrEqual(1_024);
      expect(problem.message.length).toBeLessThan(2_000);
    }
  });

  test("checks zod's own JSON Schemas, also for large values", () => {
    const schema = z.toJSONSchema(
      z.strictObject({ id: z.uuid(), mail: z.email(), n: z.int().min(0), tags: z.array(z.string()).max(3) }),
    );
    const compiled = compileSchema(schema);
    const value = { id: "7f3c1f1e-0b6f-4c8e-9a3e-2f7f1e0b6f4c", mail: "a.b+c@mail.example.com", n: 3, tags: ["x"] };
    expect(compiled.validate(value)).toEqual({ valid: true });
    expect(compiled.validate({ ...value, mail: "x", n: -1 }).valid).toBe(false);
    const many = compileSchema({ type: "array", items: schema });
    expect(many.validate(Array(1_000).fill(value), { budgetMs: 30_000 })).toEqual({ valid: true });
  });
});
