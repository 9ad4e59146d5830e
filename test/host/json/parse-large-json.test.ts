// Tests that the time-sliced parser agrees with JSON.parse for slices of any size: it returns the same values and rejects the same texts.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { JsonErrorFactory } from "../../../src/host/json/json-errors.ts";
import { type LargeJsonOptions, parseLargeJson } from "../../../src/host/json/parse-large-json.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { failureOf } from "../../support/host-zone.ts";

const LIMITS = { bytes: 1_000_000, depth: 1_000, values: 100_000 };
const CODES = { invalid: "OUTPUT_INVALID", tooLarge: "OUTPUT_TOO_LARGE" } as const;
const ERRORS = new JsonErrorFactory(LIMITS, CODES, "The output");
type Slices = Pick<LargeJsonOptions, "batchBytes" | "longStringBytes">;

function parse(text: string | Buffer, slices: Slices = {}, limits: Partial<typeof LIMITS> = {}): Promise<unknown> {
  const all = { ...LIMITS, ...limits };
  return parseLargeJson(Buffer.from(text), {
    limits: all,
    errors: new JsonErrorFactory(all, CODES, "The output"),
    ...slices,
  });
}

/** Slices from one byte to sizes at which several children share a batch. */
const slicesArbitrary = fc.record({
  batchBytes: fc.integer({ min: 1, max: 40 }),
  longStringBytes: fc.integer({ min: 1, max: 30 }),
});

const keyArbitrary = fc
  .oneof(
    fc.string({ unit: "binary", maxLength: 8 }),
    fc.constantFrom(
      "",
      "a",
      "b",
      "0",
      "1",
      "07",
      "4294967294",
      "4294967295",
      "-1",
      "toString",
      "constructor",
      "__proto",
      "length",
    ),
  )
  .filter((key) => key !== "__proto__");

/** JSON text, including forms that JSON.stringify does not produce: repeated keys, white space, escapes, unusual numbers. */
const spaces = fc.constantFrom("", "", "", " ", "\n\t", "\r  ");
const stringText = fc.oneof(
  fc.string({ unit: "binary", maxLength: 30 }).map((text) => JSON.stringify(text)),
  fc
    .array(fc.constantFrom("\\ud800", "\\u00e9", '\\"', "\\\\", "\\/", "é", "😀", "\\ud83d\\ude00", "x"), {
      maxLength: 15,
    })
    .map((parts) => `"${parts.join("")}"`),
);
const scalarText = fc.oneof(
  stringText,
  fc.double({ noDefaultInfinity: true, noNaN: true }).map(String),
  fc.constantFrom("-0", "0", "1e400", "-1E-5", "123456789012345678901234567890", "0.1e+1", "true", "false", "null"),
);
const { jsonText } = fc.letrec<{ jsonText: string }>((tie) => {
  const spaced = fc.tuple(spaces, tie("jsonText"), spaces).map((parts) => parts.join(""));
  const member = fc
    .tuple(
      spaces,
      keyArbitrary.map((key) => JSON.stringify(key)),
      spaces,
      spaced,
    )
    .map(([before, key, after, value]) => `${before}${key}${after}:${value}`);
  return {
    jsonText: fc.oneof(
      { maxDepth: 5, depthSize: "small" },
      scalarText,
      fc.array(spaced, { maxLength: 6 }).map((items) => `[${items.join(",")}]`),
      fc.array(member, { maxLength: 6 }).map((members) => `{${members.join(",")}}`),
      spaces.map((space) => `[${space}]`),
    ),
  };
});

/** Returns a text of a value that shows the order of its keys, and distinguishes -0 from 0. */
function spell(value: unknown): string {
  if (Object.is(value, -0)) return "-0";
  if (Array.isArray(value)) return `[${value.map(spell).join()}]`;
  if (typeof value !== "object" || value === null)
    return typeof value === "string" ? JSON.stringify(value) : String(value);
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  return `{${Object.entries(value)
    .map(([key, member]) => `${JSON.stringify(key)}:${spell(member)}`)
    .join()}}`;
}

async function expectSame(text: string, slices: Slices): Promise<void> {
  let expected: unknown;
  try {
    expected = JSON.parse(text);
  } catch {
    const failure = await failureOf(parse(text, slices));
    expect([text, failure.code]).toEqual([text, "OUTPUT_INVALID"]);
    return;
  }
  const parsed = await parse(text, slices).catch((thrown: unknown) => thrown);
  // A number beyond the range of a double is rejected, even if a later member with the same key replaces it.
  const isRejected = parsed instanceof ToolError && parsed.message.includes("the range of a double");
  if (isRejected && /[eE]\+?\d{3}|\d{309}/.test(text)) return;
  expect(spell(parsed)).toBe(spell(expected));
}

describe("parseLargeJson()", () => {
  test("returns the same value as JSON.parse for any JSON", async () => {
    await fc.assert(
      fc.asyncProperty(fc.tuple(spaces, jsonText, spaces), slicesArbitrary, (parts, slices) =>
        expectSame(parts.join(""), slices),
      ),
      { numRuns: 1_000 },
    );
  });

  test("agrees with JSON.parse on JSON with small errors", async () => {
    const fragment = fc.constantFrom(
      ...[
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        '"',
        "\\",
        "0",
        "-",
        "n",
        "null",
        " ",
        "\u0000",
        "\n",
        "\ufeff",
        "[]",
        '""',
        "1e",
        ".",
        "\\u",
        ",,",
        "],[",
        "},{",
      ],
    );
    const edit = fc.record({
      at: fc.nat(),
      drop: fc.integer({ min: 0, max: 2 }),
      insert: fc.oneof(fc.constant(""), fragment),
    });
    const edited = fc.tuple(jsonText, fc.array(edit, { minLength: 1, maxLength: 3 })).map(([text, edits]) =>
      edits.reduce((before, { at, drop, insert }) => {
        const position = at % (before.length + 1);
        return before.slice(0, position) + insert + before.slice(position + drop);
      }, text),
    );
    const wellFormed = edited.filter((text) => text.isWellFormed() && !text.includes("__proto__"));
    await fc.assert(fc.asyncProperty(wellFormed, slicesArbitrary, expectSame), { numRuns: 3_000 });
  });

  test("agrees with JSON.parse on any sequence of brackets and separators", async () => {
    const token = fc.constantFrom("[", "]", "{", "}", ",", ":", '"a"', "1", " ");
    const text = fc.array(token, { maxLength: 14 }).map((tokens) => tokens.join(""));
    await fc.assert(fc.asyncProperty(text, slicesArbitrary, expectSame), { numRuns: 3_000 });
  });

  test("decodes any bytes as Buffer does", async () => {
    const bytes = fc.array(fc.constantFrom(0x80, 0xbf, 0xc3, 0xe2, 0xed, 0xa0, 0xf0, 0x9f, 0xf8, 0xff, 0x61), {
      maxLength: 40,
    });
    await fc.assert(
      fc.asyncProperty(
        bytes,
        slicesArbitrary,
        fc.constantFrom(["[1,", ",2]"], ['{"a":', "}"]),
        async (inner, slices, [before, after]) => {
          const text = Buffer.concat([Buffer.from(`${before}"`), Buffer.from(inner), Buffer.from(`"${after}`)]);
          expect(await parse(text, slices)).toEqual(JSON.parse(text.toString()));
        },
      ),
      { numRuns: 1_000 },
    );
  });

  test.for([
    ...[
      "",
      " ",
      "[",
      "]",
      "[1,]",
      "[,1]",
      "[1,,2]",
      "[,]",
      "{,}",
      '{"a":1,}',
      '{"a":1,,"b":2}',
      '{,"a":1}',
      '{"a"}',
      '{"a" 1}',
      "{1:1}",
    ],
    ...[
      "[1]]",
      "[1] 2",
      "1 2",
      "1,2",
      "[1}",
      '{"a":1]',
      "[[1,2],[3,4}]",
      "[[1,2]3]",
      "[[1,2] [3]]",
      "[[1,2]:3]",
      "[[1,2]:,3]",
      "[[1,2]:]",
    ],
    ...[
      "\ufeff[]",
      "[1[2,3]]",
      '{"a":1{"b":2}}',
      '{"a":-[1,2]}',
      '["a',
      '["a\\',
      '["a\\u"',
      '["\\u12"]',
      '["\\x"]',
      '["\n"]',
      "[tru,1]",
      "[01]",
    ],
    ...[
      "NaN",
      "[1]\u0000",
      "/**/[]",
      "'a'",
      "[1]]]]",
      "}{",
      "][",
      '{"a":1}{',
      '[1,2]"a"',
      '["aaaaaaaaaa""b"]',
      '{"aaaaaaaaaa":"bbbbbbbbbb" "c"}',
    ],
  ])("rejects %j with slices of any size", async (text) => {
    expect(() => JSON.parse(text)).toThrow(SyntaxError);
    for (let batchBytes = 1; batchBytes <= text.length + 1; batchBytes += 1) {
      for (const longStringBytes of [1, 4, 1_000]) {
        const failure = await failureOf(parse(text, { batchBytes, longStringBytes }));
        expect(failure.message).toBe("The output: invalid JSON");
      }
    }
  });

  test("enforces each limit exactly", async () => {
    const text = '{"a":[1,"b",{"c":null}],"d":[[]]}';
    for (const batchBytes of [1, 5, 1_000]) {
      await expect(parse(text, { batchBytes }, { depth: 3, values: 26 })).resolves.toEqual(JSON.parse(text));
      expect((await failureOf(parse(text, { batchBytes }, { values: 25 }))).toData("t")).toMatchObject({
        code: "OUTPUT_TOO_LARGE",
        message: "The output: expected at most 25 JSON values (each key counts as 1, each array and object as 4)",
        details: { limitValues: 25 },
      });
      expect((await failureOf(parse(text, { batchBytes }, { depth: 2 }))).toData("t")).toMatchObject({
        code: "OUTPUT_INVALID",
        message: "The output: expected JSON nested at most 2 deep",
        details: { limitDepth: 2 },
      });
    }
  });

  test.for<[string, string]>([
    ['{"__proto__":1}', "/__proto__"],
    ['[1,{"a/b":[[],{"\\u005f_proto\\u005f\\u005F" :{}}]}]', "/1/a~1b/1/__proto__"],
    ['{"x":{"y":1},"z":["__proto__",{"__proto__":[]}]}', "/z/1/__proto__"],
  ])("rejects the __proto__ key in %s, and names its path", async ([text, pointer]) => {
    for (let batchBytes = 1; batchBytes < 60; batchBytes += 3) {
      const failure = await failureOf(parse(text, { batchBytes }));
      expect(failure.message).toBe(`The output: the key "__proto__" is not allowed, at ${pointer}`);
      expect(failure.details).toMatchObject({ problems: [{ pointer }] });
    }
  });

  test("accepts __proto__ as a value, and keys that only contain it", async () => {
    const text = '{"a":"__proto__","b":["__proto__","\\u005f_proto__"],"\\"__proto__\\"":{"___proto__":1}}';
    for (let batchBytes = 1; batchBytes < 80; batchBytes += 3)
      expect(await parse(text, { batchBytes })).toEqual(JSON.parse(text));
  });

  test("creates members as JSON.parse does if Object.prototype is polluted or frozen", async () => {
    const text = '{"set":[1,2,3],"fixed":{"set":1,"fixed":[2,3]},"toString":[4,5]}';
    const traps = {
      set: { set: () => expect.fail("a setter was called"), configurable: true },
      fixed: { value: 1, configurable: true },
    };
    Object.defineProperties(Object.prototype, traps);
    const parsing = parse(text, { batchBytes: 1 });
    const value = await parsing.finally(() => {
      Reflect.deleteProperty(Object.prototype, "set");
      Reflect.deleteProperty(Object.prototype, "fixed");
    });
    expect(JSON.stringify(value)).toBe(text);
    const members = Object.values(Object.getOwnPropertyDescriptors(value));
    for (const member of members)
      expect(member).toMatchObject({ writable: true, enumerable: true, configurable: true });
    expect(members).toHaveLength(3);
  });

  test("rejects with the signal's reason between two slices", async () => {
    const reason = new ToolError("TOOL_TIMEOUT", "late");
    const options = { limits: LIMITS, errors: ERRORS };
    const text = Buffer.from(`[${"1,".repeat(4_000_000)}1]`);
    await expect(parseLargeJson(text, { ...options, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const controller = new AbortController();
    const parsing = parseLargeJson(text, { ...options, limits: { depth: 1, values: 1e9 }, signal: controller.signal });
    setImmediate(() => setImmediate(() => controller.abort(reason)));
    await expect(parsing).rejects.toBe(reason);
  });

  test.for<[string, string, string]>([
    ["a key", `{"${"k".repeat(2_000_000)}":1}`, "keys, numbers and white space of at most 1048576 bytes each"],
    ["a number", `[${"1".repeat(2_000_000)}]`, "keys, numbers and white space of at most 1048576 bytes each"],
    ["white space", `[1${" ".repeat(2_000_000)},2]`, "keys, numbers and white space of at most 1048576 bytes each"],
    [
      "an object",
      `{${Array.from({ length: 170_001 }, (_, i) => `"${i}":0`).join()}}`,
      "at most 170000 keys in one object",
    ],
  ])("rejects %s that is too large to be read without blocking the event loop", async ([, text, message]) => {
    const failure = await failureOf(parse(text, {}, { values: 1e6 }));
    expect(failure.message).toBe(`The output: expected ${message}`);
  });

  test("accepts 1,000 levels, each with a long key, and strings of any length", async () => {
    const levels = Array.from({ length: 999 }, (_, level) => `{"${"k".repeat(3_000)}${level}":`);
    const deep = `${levels.join("")}["${"é\\n".repeat(300_000)}"]${"}".repeat(999)}`;
    expect(JSON.stringify(await parse(deep))).toBe(JSON.stringify(JSON.parse(deep)));
  });
});
