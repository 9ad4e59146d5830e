// Checks the form of a keyword's value, and returns its subschemas.

import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { type PatternTally, patternFault } from "../checks/pattern.ts";
import { describeValue, formatList, quoteShortened } from "../describe.ts";
import { escapeStep } from "../json-pointer.ts";
import { type KeywordShape, TYPE_NAMES } from "./keywords.ts";
import type { Schema } from "./schema-copy.ts";
import type { RejectSchema } from "./schema-error.ts";

export interface Subschema {
  readonly schema: Schema;
  readonly pointer: string;
}

/** State that the checks of one schema share. */
export interface SchemaChecks {
  readonly reject: RejectSchema;
  readonly patterns: PatternTally;
}

const NONE: readonly Subschema[] = [];

/** Returns the subschemas of a keyword. @throws {ToolError} when its value does not have the form `shape` */
export function checkKeyword(
  shape: KeywordShape,
  value: unknown,
  pointer: string,
  checks: SchemaChecks,
): readonly Subschema[] {
  const { reject } = checks;
  switch (shape) {
    case "schema":
      return [subschema(value, pointer, reject)];
    case "schemas":
      return subschemas(value, pointer, reject);
    case "schema or schemas":
      return Array.isArray(value) ? subschemas(value, pointer, reject) : [subschema(value, pointer, reject)];
    case "schema map":
    case "schema or strings map":
    case "strings map":
    case "pattern map":
      return checkMap(shape, value, pointer, checks);
    case "pattern":
      checkPattern(value, pointer, checks);
      return NONE;
    default:
      checkPlain(shape, value, pointer, reject);
      return NONE;
  }
}

function subschema(value: unknown, pointer: string, reject: RejectSchema): Subschema {
  if (typeof value === "boolean" || isJsonObject(value)) return { schema: value, pointer };
  return reject(pointer, "a schema (an object or a boolean)", describeValue(value));
}

function subschemas(value: unknown, pointer: string, reject: RejectSchema): readonly Subschema[] {
  if (!Array.isArray(value)) return reject(pointer, "an array of schemas", describeValue(value));
  return value.map((item, index) => subschema(item, `${pointer}/${index}`, reject));
}

function checkMap(
  shape: "schema map" | "schema or strings map" | "strings map" | "pattern map",
  value: unknown,
  pointer: string,
  checks: SchemaChecks,
): readonly Subschema[] {
  const { reject } = checks;
  if (!isJsonObject(value)) return reject(pointer, "an object", describeValue(value));
  const found: Subschema[] = [];
  for (const [name, member] of Object.entries(value)) {
    const memberPointer = `${pointer}/${escapeStep(name)}`;
    if (shape === "pattern map") checkPattern(name, memberPointer, checks);
    const takesStrings = shape === "strings map" || (shape === "schema or strings map" && Array.isArray(member));
    if (takesStrings) checkPlain("strings", member, memberPointer, reject);
    else found.push(subschema(member, memberPointer, reject));
  }
  return found;
}

function checkPattern(value: unknown, pointer: string, checks: SchemaChecks): void {
  if (typeof value === "string") {
    const fault = patternFault(value, checks.patterns);
    if (fault !== undefined) checks.reject(pointer, fault, quoteShortened(value));
  } else checks.reject(pointer, "a regular expression as a string", describeValue(value));
}

type PlainShape = Exclude<
  KeywordShape,
  | "schema"
  | "schemas"
  | "schema or schemas"
  | "schema map"
  | "schema or strings map"
  | "strings map"
  | "pattern"
  | "pattern map"
>;

const isString = (value: unknown): boolean => typeof value === "string";
const isTypeName = (value: unknown): boolean => typeof value === "string" && TYPE_NAMES.includes(value);

const PLAIN_SHAPES: { readonly [Shape in PlainShape]: { expected: string; test: (value: unknown) => boolean } } = {
  string: { expected: "a string", test: isString },
  strings: {
    expected: "an array of strings",
    test: (value) => Array.isArray(value) && value.every(isString),
  },
  list: { expected: "an array", test: Array.isArray },
  type: {
    expected: `one or an array of ${formatList(TYPE_NAMES, quoteShortened)}`,
    test: (value) => isTypeName(value) || (Array.isArray(value) && value.length > 0 && value.every(isTypeName)),
  },
  boolean: { expected: "a boolean", test: (value) => typeof value === "boolean" },
  // Not only safe integers: generators write 1e308 for "no limit".
  count: { expected: "a whole number, 0 or more", test: (value) => Number.isInteger(value) && Number(value) >= 0 },
  number: { expected: "a number", test: Number.isFinite },
  "number or boolean": {
    expected: "a number",
    test: (value) => Number.isFinite(value) || typeof value === "boolean",
  },
  "positive number": { expected: "a number above 0", test: (value) => Number.isFinite(value) && Number(value) > 0 },
};

function checkPlain(shape: PlainShape, value: unknown, pointer: string, reject: RejectSchema): void {
  const { expected, test } = PLAIN_SHAPES[shape];
  if (test(value)) return;
  const got = typeof value === "string" ? quoteShortened(value) : describeValue(value);
  reject(pointer, expected, got);
}
