// Schemas and values built to hold the host: each ends within the budget, with a typed answer, and the next one is served.
import { describe, expect, test } from "vitest";
import { FORMATS } from "../../../src/host/json-schema/checks/formats.ts";
import { compileSchema } from "../../../src/host/json-schema/compile-schema.ts";
import type { ValidationOutcome } from "../../../src/host/json-schema/outcome.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { expectQuick, msPerRun } from "../../support/processes.ts";

/** CPU time in ms, far above the budget of 50 ms: a missing guard multiplies it by hundreds. */
const PATIENCE_MS = 900;

type Ending = "valid" | "issues" | "stopped" | "rejected";

function endingOf(outcome: ValidationOutcome): Ending {
  if (outcome.valid) return "valid";
  return outcome.stopped ? "stopped" : "issues";
}

function attack(schema: unknown, value: unknown): Ending {
  try {
    return endingOf(compileSchema(schema).validate(value));
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return "rejected";
  }
}

/** A pause of the machine uses up the budget. */
const TRIES = 5;

const range = (length: number): number[] => Array.from({ length }, (_, index) => index);

/** Each level refers twice to the next: 2^30 visits. */
function billionLaughs(keyword: "allOf" | "anyOf" | "oneOf", type = "number"): { $ref: string; $defs: unknown } {
  const levels = range(31).map((level) => [
    `l${level}`,
    level === 30 ? { type } : { [keyword]: [{ $ref: `#/$defs/l${level + 1}` }, { $ref: `#/$defs/l${level + 1}` }] },
  ]);
  return { $ref: "#/$defs/l0", $defs: Object.fromEntries(levels) };
}

function nest(levels: number, wrap: (inner: unknown) => unknown): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = wrap(value);
  return value;
}

const evilText = `${"a".repeat(50)}!`;
const manyRefs = Object.fromEntries(range(3_000).map((index) => [`d${index}`, { $ref: `#/$defs/d${index + 1}` }]));

describe("CompiledSchema.validate() ends", () => {
  test.for<[string, unknown, unknown, readonly Ending[]]>([
    ["a catastrophic pattern", { pattern: "^(a+)+$" }, evilText, ["stopped"]],
    [
      "a pattern that is catastrophic because of overlapping alternatives",
      { pattern: "^(a|a)*$" },
      evilText,
      ["stopped"],
    ],
    [
      "a catastrophic pattern with optional parts",
      { pattern: `^${"(?:a?)".repeat(40)}${"a".repeat(40)}$` },
      "a".repeat(39),
      ["stopped", "issues"],
    ],
    ["a polynomial pattern on a long string", { pattern: "a*a*a*a*b" }, "a".repeat(20_000), ["stopped"]],
    ["a catastrophic lookahead", { pattern: "^(?=(a+)+$)" }, evilText, ["stopped"]],
    ["a back reference", { pattern: "^(a*)*\\1$" }, evilText, ["stopped", "issues"]],
    [
      "a catastrophic patternProperties key",
      { patternProperties: { "^(a+)+$": true } },
      { [evilText]: 1 },
      ["stopped"],
    ],
    [
      "a catastrophic pattern under propertyNames",
      { propertyNames: { pattern: "(x+x+)+y" } },
      { ["x".repeat(60)]: 1 },
      ["stopped"],
    ],
    [
      "many slow strings",
      { items: { pattern: "^a*a*$" } },
      Array(5_000).fill(`${"a".repeat(500)}!`),
      ["stopped", "issues"],
    ],
    ["a $ref to itself", { $ref: "#" }, 1, ["rejected"]],
    [
      "$refs that lead to each other",
      { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } } },
      1,
      ["rejected"],
    ],
    ["a $dynamicRef to itself", { $dynamicAnchor: "a", $dynamicRef: "#a" }, 1, ["rejected"]],
    ["2^30 $refs by allOf", billionLaughs("allOf"), 1, ["stopped"]],
    ["2^30 $refs by anyOf, none of which holds", billionLaughs("anyOf"), "x", ["stopped"]],
    ["2^30 $refs by oneOf", billionLaughs("oneOf"), 1, ["stopped", "issues"]],
    [
      "a chain of 3,000 $refs",
      { $ref: "#/$defs/d0", $defs: { ...manyRefs, d3000: { type: "string" } } },
      1,
      ["stopped", "issues"],
    ],
    ["300,000 unique numbers", { uniqueItems: true }, range(300_000), ["valid", "stopped"]],
    [
      "300,000 objects that differ late",
      { uniqueItems: true },
      range(300_000).map((i) => ({ a: [0, { b: i }] })),
      ["stopped"],
    ],
    [
      "strings that collide in their hash",
      { uniqueItems: true },
      range(20_000).map((i) => [`${"a".repeat(64)}${i + 10_000}`]),
      ["stopped"],
    ],
    [
      "4,000 branches over 100,000 items",
      { items: { allOf: Array(4_000).fill({ type: "number" }) } },
      range(100_000),
      ["stopped"],
    ],
    [
      "4,000 branches of unevaluatedItems",
      { anyOf: Array(4_000).fill({ contains: true }), unevaluatedItems: false },
      range(10_000),
      ["stopped"],
    ],
    [
      "a large enum of objects over many items",
      { items: { enum: range(2_000).map((i) => ({ a: i })) } },
      range(50_000).map((i) => ({ a: -i })),
      ["issues", "stopped"],
    ],
    [
      "200,000 unknown keys",
      { additionalProperties: false },
      Object.fromEntries(range(200_000).map((i) => [`k${i}`, 1])),
      ["issues", "stopped"],
    ],
    [
      "a tree of the maximum depth",
      { properties: { a: { $ref: "#" } }, items: { $ref: "#" } },
      nest(1_000, (a) => ({ a })),
      ["valid"],
    ],
    ["a tree deeper than the stack", { allOf: [{ items: { $ref: "#" } }] }, nest(50_000, (a) => [a]), ["stopped"]],
    [
      "multipleOf at the ends of the range",
      { items: { multipleOf: 5e-324 } },
      Array(100_000).fill(1.7976931348623157e308),
      ["valid", "stopped"],
    ],
    ["a schema of 300 levels", nest(300, (not) => ({ not })), 1, ["rejected"]],
    ["a schema of a megabyte", { enum: [`${"x".repeat(1_000_000)}`] }, 1, ["rejected"]],
  ])("%s", ([, schema, value, endings]) => {
    let ending: Ending | undefined;
    for (let tries = 0; tries < TRIES && (ending === undefined || !endings.includes(ending)); tries += 1) {
      expectQuick(() => (ending = attack(schema, value)), PATIENCE_MS, endings);
    }
    expect(endings).toContain(ending);
    expect(compileSchema({ type: "number" }).validate(1)).toEqual({ valid: true });
  });

  test("a validation that is stopped gives the reason as a type, not a text", () => {
    expect(compileSchema({ pattern: "^(a+)+$" }).validate(evilText, { budgetMs: 20 })).toMatchObject({
      stopped: true,
      reason: "time",
    });
    const deep = nest(50_000, (a) => [a]);
    expect(compileSchema({ items: { $ref: "#" } }).validate(deep, { budgetMs: 30_000 })).toMatchObject({
      stopped: true,
      reason: "depth",
    });
  });

  test("validation ends within the given budget", () => {
    const compiled = compileSchema(billionLaughs("allOf"));
    const cpuMs = (budgetMs: number): number =>
      msPerRun(() => expect(compiled.validate(1, { budgetMs }).valid).toBe(false));
    const shares = Array.from({ length: 3 }, () => cpuMs(5) / cpuMs(200));
    expect(Math.min(...shares)).toBeLessThan(1 / 4);
  });

  test("validation returns the issues found so far if the time runs out while they are collected", () => {
    const { $ref, $defs } = billionLaughs("allOf", "array");
    const outcome = compileSchema({ $defs, prefixItems: [{ type: "string" }], allOf: [{ $ref }] }).validate([1]);
    expect(outcome).toMatchObject({ stopped: false, truncated: true, issues: [{ pointer: "/0", keyword: "type" }] });
  });
});

describe("names of Object.prototype", () => {
  test("do not pollute prototypes and do not count as properties", () => {
    const schema = JSON.parse(
      '{"properties":{"__proto__":{"properties":{"polluted":{"const":1}}},"a":{"$ref":"#/$defs/__proto__"}},' +
        '"$defs":{"__proto__":{"type":"string"},"constructor":{"prototype":{"polluted":1}}},' +
        '"dependentRequired":{"toString":["x"],"__proto__":["y"]},"required":["a"],"__absolute_uri__":"x","__absolute_ref__":"y"}',
    );
    const compiled = compileSchema(schema);
    expect(compiled.validate({ a: "x" })).toEqual({ valid: true });
    expect(compiled.validate(JSON.parse('{"a":"x","__proto__":{"polluted":2}}'))).toMatchObject({
      issues: [
        { pointer: "", expected: 'property "y"' },
        { pointer: "/__proto__/polluted", keyword: "const" },
      ],
    });
    expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
    expect(Reflect.get({}, "polluted")).toBeUndefined();
  });

  test("names of Object.prototype are in no table", () => {
    for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty", "__defineGetter__", "valueOf"]) {
      const schema = JSON.parse(
        `{"${name}":{"type":1},"format":"${name}","$ref":"#/$defs/${name}","$defs":{"${name}":true}}`,
      );
      expect(compileSchema(schema).validate("x")).toEqual({ valid: true });
      expect(() => compileSchema({ $ref: `#/${name}` })).toThrow(ToolError);
      expect(() => compileSchema({ $ref: `#${name}` })).toThrow(ToolError);
    }
  });
});

describe("FORMATS", () => {
  const pumps = [
    "a",
    "a.",
    "a-",
    "1",
    "0:",
    ":",
    "/",
    "//",
    "%41",
    "{a}",
    "{a,",
    "a@",
    "[",
    " ",
    "-",
    "~0",
    "\\",
    "1.",
    "P1D",
    "T",
    "a:b@",
    "é",
  ];
  const heads = ["", "http://", "a:", '"', "a@", "P", "{", "0", "[", "2026-01-01T00:00:00.", "00:00:00."];

  test.for([...FORMATS.keys()])("%s takes little time on hostile strings", (name) => {
    const compiled = compileSchema({ items: { format: name } });
    const max = FORMATS.get(name)?.maxChars ?? 0;
    for (const head of heads) {
      for (const pump of pumps) {
        const text = `${head}${pump.repeat(Math.ceil(max / pump.length))}`.slice(0, max - 1);
        const run = (): void => {
          const outcome = compiled.validate([`${text}\n`, text], { budgetMs: 30_000 });
          expect(outcome.valid || !outcome.stopped).toBe(true);
        };
        expectQuick(run, 300, [head, pump]);
      }
    }
  });
});
