// compileSchema() and validate() under generated schemas and values: values made from a schema pass, spoilt ones fail, nothing
// throws, pointers lead somewhere, and @cfworker/json-schema gives the same answers where it has no known defect.
import { Validator } from "@cfworker/json-schema";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compileSchema } from "../../../src/host/json-schema/compile-schema.ts";
import { toPointer } from "../../../src/host/json-schema/json-pointer.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";

interface Pair {
  readonly schema: Record<string, unknown>;
  readonly valid: unknown;
  readonly invalid: unknown;
}

const NAMES = ["a", "b", "x/y", "t~", "__proto__", "constructor"];

const leaf: fc.Arbitrary<Pair> = fc.oneof(
  fc
    .integer({ min: 3, max: 9 })
    .map((valid) => ({ schema: { type: "integer", minimum: 3, maximum: 9 }, valid, invalid: 10 })),
  fc
    .string({ minLength: 1, maxLength: 5, unit: "binary" })
    .map((valid) => ({ schema: { type: "string", minLength: 1 }, valid, invalid: "" })),
  fc.constantFrom("x", 1, null).map((valid) => ({ schema: { enum: ["x", 1, null] }, valid, invalid: "y" })),
  fc.boolean().map((valid) => ({ schema: { type: ["boolean", "null"] }, valid, invalid: [] })),
  fc
    .constantFrom("2026-01-01", "2024-02-29")
    .map((valid) => ({ schema: { format: "date" }, valid, invalid: "2025-02-29" })),
);

function setOwn(entries: readonly (readonly [string, unknown])[]): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  for (const [key, value] of entries)
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  return object;
}

function objectOf(members: readonly (readonly [string, Pair])[]): Pair {
  const properties = setOwn(members.map(([name, pair]) => [name, pair.schema]));
  const schema = { type: "object", properties, required: members.map(([name]) => name), additionalProperties: false };
  const valid = setOwn(members.map(([name, pair]) => [name, pair.valid]));
  const [first] = members;
  const spoilt =
    first === undefined
      ? { extra: 1 }
      : setOwn(members.map(([name, pair], index) => [name, index === 0 ? pair.invalid : pair.valid]));
  return { schema, valid, invalid: spoilt };
}

const pair: fc.Arbitrary<Pair> = fc.letrec<{ pair: Pair }>((tie) => ({
  pair: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    leaf,
    fc
      .uniqueArray(fc.tuple(fc.constantFrom(...NAMES), tie("pair")), { selector: ([name]) => name, maxLength: 4 })
      .map(objectOf),
    fc.array(tie("pair"), { minLength: 1, maxLength: 3 }).map((items) => ({
      schema: { type: "array", prefixItems: items.map((item) => item.schema), items: false, minItems: items.length },
      valid: items.map((item) => item.valid),
      invalid: items.map((item, index) => (index === items.length - 1 ? item.invalid : item.valid)),
    })),
    tie("pair").map((inner) => ({ ...inner, schema: { anyOf: [inner.schema, { const: "never this" }] } })),
    tie("pair").map((inner) => ({ ...inner, schema: { allOf: [inner.schema], not: { const: "never this" } } })),
  ),
})).pair;

/** Whether a pointer leads to a value. */
function resolves(value: unknown, pointer: string): boolean {
  if (pointer === "") return true;
  let current = value;
  for (const step of pointer.slice(1).split("/")) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof current !== "object" || current === null || !Object.hasOwn(current, name)) return false;
    current = Reflect.get(current, name);
  }
  return true;
}

describe("compileSchema() with generated schemas", () => {
  test("accepts values generated from them, and reports issues of corrupted ones", () => {
    fc.assert(
      fc.property(pair, ({ schema, valid, invalid }) => {
        const compiled = compileSchema(schema);
        expect(compiled.validate(valid)).toEqual({ valid: true });
        const outcome = compiled.validate(invalid);
        if (outcome.valid || outcome.stopped) throw new Error("Expected problems");
        expect(outcome.issues.length).toBeGreaterThan(0);
        for (const problem of outcome.issues) {
          expect(resolves(invalid, problem.pointer)).toBe(true);
          expect(problem.message).toContain(problem.expected);
          expect(problem.message).toContain(problem.got);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("changes neither schema nor value", () => {
    fc.assert(
      fc.property(pair, ({ schema, valid, invalid }) => {
        const before = JSON.stringify([schema, valid, invalid]);
        const compiled = compileSchema(schema);
        compiled.validate(valid);
        compiled.validate(invalid);
        expect(JSON.stringify([schema, valid, invalid])).toBe(before);
      }),
      { numRuns: 200 },
    );
  });

  test("throws only ToolErrors for any JSON as a schema, and nothing for any value", () => {
    const keyword = fc.constantFrom(
      "type",
      "properties",
      "required",
      "$ref",
      "$id",
      "$anchor",
      "$dynamicRef",
      "$defs",
      "items",
      "allOf",
      "anyOf",
      "enum",
      "pattern",
      "format",
      "uniqueItems",
      "if",
      "then",
      "unevaluatedProperties",
      "contains",
      "multipleOf",
      "$schema",
      "dependencies",
      "__proto__",
      "constructor",
    );
    const scrap = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.constantFrom("#", "#/$defs/a", "string", "object", true, {}, ["string"], { a: {} }, [{}]),
    );
    const schema = fc
      .array(fc.tuple(keyword, fc.oneof(scrap, fc.array(fc.tuple(keyword, scrap)).map(setOwn))), { maxLength: 5 })
      .map(setOwn);
    fc.assert(
      fc.property(schema, fc.jsonValue(), (hostile, value) => {
        try {
          const outcome = compileSchema(hostile).validate(value);
          expect(outcome.valid || outcome.stopped || outcome.issues.length > 0).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(ToolError);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("agrees with @cfworker/json-schema", () => {
    fc.assert(
      fc.property(pair, fc.jsonValue(), ({ schema, invalid }, other) => {
        const compiled = compileSchema(schema);
        const reference = new Validator(structuredClone(schema), "2020-12");
        for (const value of [invalid, other]) {
          if (JSON.stringify(value).includes("\\ud")) continue;
          expect(compiled.validate(value).valid).toBe(reference.validate(value).valid);
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe("toPointer()", () => {
  test("returns pointers that resolve to the same value", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (outer, inner) => {
        expect(resolves(setOwn([[outer, setOwn([[inner, 1]])]]), toPointer([outer, inner]))).toBe(true);
      }),
    );
  });
});
