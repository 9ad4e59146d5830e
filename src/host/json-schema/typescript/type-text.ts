// Texts of TypeScript that stand for parts of a JSON Schema: names, comments, literals and operators. Text of a schema never becomes code.
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { toVisibleText } from "../../util/visible-text.ts";

/** Limits of the generated types. */
export const MAX_LITERALS = 500;
const MAX_TEXT = 500;
export const MAX_LITERAL = 1_000;
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;

/** Names that have another meaning in a type. */
const RESERVED = new Set([
  ...[
    "any",
    "bigint",
    "boolean",
    "never",
    "null",
    "number",
    "object",
    "string",
    "symbol",
    "undefined",
    "unknown",
    "void",
  ],
  ..."Array Promise Record Tools".split(" "),
]);

export type Node = { readonly [keyword: string]: unknown };

/** Converts a tool's name to the name of a type: `csv-stats` becomes `CsvStats`. */
export function toTypeName(name: string): string {
  const words = name.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  const joined = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
  return /^[A-Za-z]/.test(joined) && !RESERVED.has(joined) ? joined : `Tool${joined}`;
}

/** The type names of a file. Each name is used once. */
export class TypeNames {
  readonly #taken = new Set<string>(RESERVED);
  /** The number to try next, by wanted name: a schema can want the same name thousands of times. */
  readonly #numbers = new Map<string, number>();

  take(wanted: string): string {
    let name = wanted;
    let number = this.#numbers.get(wanted) ?? 2;
    for (; this.#taken.has(name); number += 1) name = `${wanted}${number}`;
    this.#numbers.set(wanted, number);
    this.#taken.add(name);
    return name;
  }
}

export const propertyKey = (name: string): string => (IDENTIFIER.test(name) ? name : quoted(name));

/** Returns the name of an interface's method. Without quotes, `new` would declare a construct signature. */
export const methodKey = (name: string): string => (name === "new" ? quoted(name) : propertyKey(name));

/** Returns a string literal. Characters that reorder, end or hide a part of the line are escaped. */
const quoted = (text: string): string => toVisibleText(JSON.stringify(text));

/** Returns the text on one line, bounded, without characters that end, reorder or hide a part of it. The text cannot end a comment. */
function toCommentLine(text: string, maxLength: number): string {
  const line = text
    .slice(0, 4 * maxLength)
    .replace(/[\p{Cc}\u2028\u2029]+/gu, " ")
    .trim();
  const cut = line.length > maxLength ? `${line.slice(0, maxLength)}…` : line;
  return toVisibleText(cut.toWellFormed()).replaceAll("*/", "* /");
}

/** Returns a description as a comment. The text cannot end the comment. */
export function toComment(text: unknown, indent: string, maxLength: number = MAX_TEXT): string {
  if (typeof text !== "string" || text.trim() === "") return "";
  return `${indent}/** ${toCommentLine(text, maxLength)} */\n`;
}

/** Keywords that a TypeScript type cannot express, which a comment names. */
const CONSTRAINTS = [
  ...["format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
  ...["multipleOf", "minItems", "maxItems", "uniqueItems", "default"],
] as const;

const MAX_CONSTRAINT = 100;

/** Returns the rules of a schema that its type does not show, such as `format: date; minimum: 1`. */
function constraintsOf(schema: Node): string {
  const rules: string[] = schema.type === "integer" ? ["integer"] : [];
  for (const keyword of CONSTRAINTS) {
    const value = schema[keyword];
    if (value === undefined || typeof value === "object") continue;
    rules.push(`${keyword}: ${toCommentLine(String(value), MAX_CONSTRAINT)}`);
  }
  return rules.join("; ");
}

/** Returns the comment of a property: its description, and the rules that its type does not show. */
export function propertyComment(schema: unknown, indent: string): string {
  if (!isJsonObject(schema)) return "";
  const { description, title } = schema;
  const text = [description, title].find((one) => typeof one === "string" && one.trim() !== "");
  const parts = [text === undefined ? "" : toCommentLine(String(text), MAX_TEXT), constraintsOf(schema)];
  const shown = parts.filter((part) => part !== "").map((part, index) => (index === 0 ? part : `(${part})`));
  return shown.length === 0 ? "" : `${indent}/** ${shown.join(" ").replaceAll("*/", "* /")} */\n`;
}

export const SCALARS: { readonly [type: string]: string } = {
  string: "string",
  number: "number",
  integer: "number",
  boolean: "boolean",
  null: "null",
};

/** Returns a type as the element of an array: in parentheses unless it is a name. */
export const element = (type: string): string => (/^\w+$/.test(type) ? type : `(${type})`);

export function literal(value: unknown): string {
  // A lone surrogate in a literal would become another character when the file is written as UTF-8.
  if (typeof value === "string") return value.length > MAX_LITERAL || !value.isWellFormed() ? "string" : quoted(value);
  // JSON has numbers that are infinite in JavaScript, and no name for them.
  if (typeof value === "number") return Number.isFinite(value) ? JSON.stringify(value) : "number";
  if (value === null || typeof value === "boolean") return JSON.stringify(value);
  return "unknown";
}

/** Returns the union of an enum's values; of their types if there are too many. */
export function enumeration(values: readonly unknown[]): string {
  if (values.length <= MAX_LITERALS) return union(values.map(literal));
  return union([...new Set(values.map((value) => (value === null ? "null" : (SCALARS[typeof value] ?? "unknown"))))]);
}

/** Returns a type as an operand of `|` and `&`: names and literals need no parentheses. */
export const operand = (type: string): string => (/^(?:[\w.+-]+|"(?:[^"\\]|\\.)*")$/.test(type) ? type : `(${type})`);

export function union(types: readonly string[]): string {
  const different = [...new Set(types)];
  if (different.length === 0) return "never";
  if (different.includes("unknown")) return "unknown";
  return different.length === 1 ? (different[0] ?? "never") : different.map(operand).join(" | ");
}

export function intersection(types: readonly string[]): string {
  const [first, ...others] = new Set(types);
  if (first === undefined) return "unknown";
  return others.length === 0 ? first : [first, ...others].map(operand).join(" & ");
}
