// What the form for the input of a tool reads from its schema: the value that it begins with, and the branches of a union.
import { expect, test } from "vitest";
import {
  choicesOf,
  type InputSchema,
  initialValue,
  isSmall,
  namesOf,
  resolve,
  switchedValue,
} from "../../src/console/parts/input-form/form-schema.ts";
import { numberIssueOf, readNumber } from "../../src/host/json/exact-numbers.ts";

const countParts = (value: unknown): number =>
  typeof value === "object" && value !== null
    ? Object.values(value).reduce<number>((sum, part) => sum + countParts(part), 1)
    : 1;

const names = (count: number, prefix = "child"): string[] => Array.from({ length: count }, (_, at) => prefix + at);

test("a nullable part that contains itself begins with null", () => {
  const child = { anyOf: [{ $ref: "#/$defs/Node" }, { type: "null" }] };
  const Node: InputSchema = {
    type: "object",
    properties: { text: { type: "string" }, left: child, right: child },
    required: ["text", "left", "right"],
  };
  expect(initialValue({ $ref: "#/$defs/Node", $defs: { Node } })).toEqual({ text: "", left: null, right: null });
});

test("a union that is defined by name and contains itself begins with the branch that ends", () => {
  const schema: InputSchema = {
    $ref: "#/$defs/List",
    $defs: {
      List: { anyOf: [{ $ref: "#/$defs/Item" }, { type: "null" }] },
      Item: { type: "object", properties: { next: { $ref: "#/$defs/List" } }, required: ["next"] },
    },
  };
  expect(initialValue(schema)).toEqual({ next: null });
});

test("a schema of a few lines cannot make a value or a merged schema of millions of parts", () => {
  const levels = names(9, "level");
  const required = names(60);
  const $defs = Object.fromEntries(
    levels.map((level, at) => {
      const $ref = `#/$defs/${levels[at + 1]}`;
      const properties = Object.fromEntries(required.map((name) => [name, { $ref }]));
      return [level, at === levels.length - 1 ? { type: "string" } : { type: "object", properties, required }];
    }),
  );
  const value = initialValue({ $ref: "#/$defs/level0", $defs });
  expect(countParts(value)).toBeLessThan(100_000);
  const merged = Object.fromEntries(
    levels.map((level, at) => [level, { allOf: required.map(() => ({ $ref: `#/$defs/${levels[at + 1]}` })) }]),
  );
  const endless = { allOf: [{ $ref: "#/$defs/level0" }], title: "Endless" };
  expect(resolve(endless, { $defs: merged })).toEqual({ title: "Endless" });
});

test("a branch of a union has what the schema requires in every branch", () => {
  const schema: InputSchema = {
    type: "object",
    title: "Message",
    properties: { subject: { type: "string" } },
    required: ["subject"],
    oneOf: [
      { properties: { kind: { const: "mail" }, to: { type: "string" } }, required: ["kind", "to"] },
      { properties: { kind: { const: "phone" }, number: { type: "number" } }, required: ["kind", "number"] },
    ],
  };
  const choices = choicesOf(schema) ?? [];
  expect(namesOf(choices, schema)).toEqual(["mail", "phone"]);
  expect(initialValue(schema)).toEqual({ subject: "", kind: "mail", to: "" });
  const before = { subject: "Hello", kind: "mail", to: "ada" };
  expect(switchedValue(before, schema, choices[1] ?? {}, schema)).toEqual({
    subject: "Hello",
    kind: "phone",
    number: 0,
  });
});

test("branches without a title or a tag are named after what each requires", () => {
  const schema: InputSchema = {
    type: "object",
    properties: { id: { type: "string" }, email: { type: "string" }, note: { type: "string" } },
    required: ["note"],
    anyOf: [{ required: ["id"] }, { required: ["email"] }],
  };
  const choices = choicesOf(schema) ?? [];
  expect(namesOf(choices, schema)).toEqual(["object with id", "object with email"]);
  expect(initialValue(schema)).toEqual({ note: "", id: "" });
  expect(namesOf([{ type: "string" }, { type: "string" }, {}], schema)).toEqual(["string 1", "string 2", "any"]);
});

test.for<readonly [string, InputSchema]>([
  ["#/properties/home", { type: "object" }],
  ["#/$defs/a~1b", { type: "string" }],
  ["#/$defs/a%2Fb", { type: "string" }],
  ["#/$defs/deep/properties/part", { type: "number" }],
  ["#/$defs/__proto__", {}],
  ["#/$defs/missing", {}],
  ["#home", {}],
  ["other.json#/$defs/a~1b", {}],
])("resolves the reference %s", ([$ref, expected]) => {
  const root: InputSchema = {
    properties: { home: { type: "object" } },
    $defs: { "a/b": { type: "string" }, deep: { properties: { part: { type: "number" } } } },
  };
  expect(resolve({ $ref }, root)).toEqual(expected);
});

test("knows values that have too many parts for a field each", () => {
  expect(isSmall({ list: Array.from({ length: 400 }, () => "") })).toBe(true);
  expect(isSmall({ list: Array.from({ length: 600 }, () => "") })).toBe(false);
  expect(isSmall(Array.from({ length: 30 }, () => Array.from({ length: 30 }, () => 0)))).toBe(false);
});

test.for([
  ["9007199254740992", 2 ** 53, true, true],
  ["9007199254740993", 2 ** 53, true, false],
  ["-9007199254740993", -(2 ** 53), true, false],
  // Sent as 9223372036854776000, which is another number to a tool in Python.
  ["9223372036854775808", 2 ** 63, true, false],
  ["1e23", 1e23, true, true],
  ["1.50e1", 15, true, true],
  ["15.00", 15, true, true],
  ["1e400", Infinity, true, false],
  ["1e-400", 0, false, false],
  ["-0", -0, true, true],
  ["+.5", 0.5, false, true],
  ["0.1", 0.1, false, true],
  ["3.14159265358979323846", Math.PI, false, false],
] as const)("reads the number %s as a person has written it", ([text, value, isWhole, isExact]) => {
  expect(readNumber(text)).toEqual({ value, isWhole, isExact });
});

test.for(["", " ", ".", "e5", "0x10", "1_000", "1,5", "Infinity", "NaN", "12 13"])("%j is no number", (text) => {
  expect(readNumber(text)).toBeUndefined();
});

test("finds the first number of a JSON text that would be sent as another one", () => {
  expect(numberIssueOf('{"ids":[1,9007199254740993,9007199254740995]}')).toMatch(/^9007199254740993 would be sent as/);
  expect(numberIssueOf("[-1e400]")).toBe("-1e400 is too large for a number");
  expect(numberIssueOf(`[${"1".repeat(1_000)}]`)).toMatch(/^1{59}… is too large/);
  expect(numberIssueOf('[3.14159265358979323846, 1e-400, -0, 1e23, "9007199254740993"]')).toBeUndefined();
  expect(() => numberIssueOf("[1")).toThrow(SyntaxError);
});
