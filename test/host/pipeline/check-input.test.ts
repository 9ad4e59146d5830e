// Tests arguments for an executor that takes text: they are parsed only if necessary, and the same ones are rejected as for a value.
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { compileSchema } from "../../../src/host/json-schema/compile-schema.ts";
import { SchemaThread } from "../../../src/host/json-schema/worker/schema-thread.ts";
import { type CheckedInput, checkLargeInput, checkSmallInput } from "../../../src/host/pipeline/read-value.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";

const BOUNDS = { bytes: 1_000_000, depth: 5, values: 40_000 };
const CODES = { invalid: "PARAM_INVALID", tooLarge: "PARAM_INVALID" } as const;
const SCHEMAS = {
  none: undefined,
  "any object": compileSchema({ type: "object", description: "anything" }),
  "a required key": compileSchema({ type: "object", required: ["a"] }),
  members: compileSchema({ type: "object", properties: { a: { type: "number" } } }),
  never: compileSchema(false),
};
const thread = new SchemaThread();
afterAll(() => thread[Symbol.asyncDispose]());

type Check = (wants: "text" | "value") => CheckedInput | Promise<CheckedInput>;

const read = (text: string, schema: keyof typeof SCHEMAS, wants: "text" | "value") => ({
  text,
  bounds: BOUNDS,
  codes: CODES,
  what: "The arguments",
  schema: SCHEMAS[schema],
  wants,
});

/** Checks arguments as text and as a value, and expects the same outcome. Returns the text variant, or undefined for a rejection. */
async function compare(check: Check): Promise<CheckedInput | undefined> {
  const outcome = async (wants: "text" | "value"): Promise<CheckedInput | ToolError> => {
    try {
      return await check(wants);
    } catch (thrown) {
      if (thrown instanceof ToolError) return thrown;
      throw thrown;
    }
  };
  const [asText, asValue] = [await outcome("text"), await outcome("value")];
  if (asText instanceof ToolError || asValue instanceof ToolError) {
    expect([asText].map(String)).toEqual([asValue].map(String));
    return undefined;
  }
  expect(asText.inputText.toString()).toBe(asValue.inputText.toString());
  expect(asValue.input).toEqual(JSON.parse(asText.inputText.toString()));
  if (asText.input !== undefined) expect(asText.input).toEqual(asValue.input);
  return asText;
}

const schemaName = fc.constantFrom(...(Object.keys(SCHEMAS) as (keyof typeof SCHEMAS)[]));
const hostile = fc.constantFrom<unknown>(
  { a: [[[[[1]]]]] },
  { a: Array(40_001).fill(0) },
  JSON.parse('{"a":{"__proto__":1}}'),
  { a: "[[[[[[[[" },
  { a: '\\"}]' },
  { __proto__: null, a: "__proto__" },
  [],
  "text",
);
const args = fc.oneof(fc.jsonValue(), fc.record({ a: fc.jsonValue() }), hostile);

describe("arguments for an executor that takes text", () => {
  test("are accepted and rejected like those for an executor that takes a value", async () => {
    await fc.assert(
      fc.asyncProperty(args, schemaName, async (value, schema) => {
        await compare((wants) => checkSmallInput(read(JSON.stringify(value), schema, wants)));
      }),
    );
  });

  test("are accepted and rejected in the same way if they are large", async () => {
    const filler = Array.from({ length: 30 }, (_, index) => `${index}`.repeat(5_000));
    await fc.assert(
      fc.asyncProperty(args, schemaName, async (value, schema) => {
        const text = JSON.stringify({ filler, ...(value as object) });
        const { signal } = new AbortController();
        await compare(async (wants) => await checkLargeInput(read(text, schema, wants), thread, signal));
      }),
      { numRuns: 60 },
    );
  });

  test.each([
    ["none", { a: 1 }, false],
    ["any object", { a: 1 }, false],
    ["any object", [], undefined],
    ["a required key", { a: 1 }, true],
    ["members", { a: 1 }, true],
  ] as const)("are parsed if necessary: schema %s, arguments %j, parsed: %s", async (schema, value, hasValue) => {
    const checked = await compare((wants) => checkSmallInput(read(JSON.stringify(value), schema, wants)));
    expect(checked && checked.input !== undefined).toBe(hasValue);
  });
});
