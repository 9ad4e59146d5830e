// Checks what callers pass to the client before it sends a request. A misspelled option or a promise would otherwise have no effect, and an
// empty segment or ".." would make the path that of another resource. The server checks the fields of a body.
import { describeKind, isPlainObject } from "../../sandbox/contract/value-kind.ts";

const KINDS = {
  "a string that is not empty": (value) => typeof value === "string" && value !== "",
  "a string": (value) => typeof value === "string",
  "a number": (value) => Number.isFinite(value),
  "a string or a number": (value) => typeof value === "string" || Number.isFinite(value),
  "true or false": (value) => typeof value === "boolean",
  "a function": (value) => typeof value === "function",
  "an AbortSignal": (value) => value instanceof AbortSignal,
  "a list": Array.isArray,
  "a plain object": isPlainObject,
  "an object, or null": (value) => value === null || isPlainObject(value),
  "a string, or null": (value) => value === null || typeof value === "string",
  "any value": () => true,
} as const satisfies Record<string, (value: unknown) => boolean>;

/** The fields of an options object, each with the kind of its values. All are optional. */
export interface OptionFields {
  readonly [name: string]: keyof typeof KINDS;
}

/** Returns the error for an invalid argument: a TypeError whose `code` is PARAM_INVALID, as in the library. */
export const invalid = (where: string, issue: string): TypeError =>
  Object.assign(new TypeError(`${where}: ${issue}`), { code: "PARAM_INVALID" });

/** @throws {TypeError} for a value that is not a plain object, an unknown field, or a value of a wrong type */
export function checkOptions(value: unknown, where: string, fields: OptionFields): void {
  if (!isPlainObject(value)) throw invalid(where, `Expected a plain object, got ${describeKind(value)}`);
  for (const [name, given] of Object.entries(value)) {
    const kind = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (kind === undefined) {
      throw invalid(`${where}.${name}`, `Unknown option. Expected ${Object.keys(fields).join(", ")}`);
    }
    if (given !== undefined) checkKind(given, `${where}.${name}`, kind);
  }
}

/** @throws {TypeError} for a value of another kind */
export function checkKind(value: unknown, where: string, kind: keyof typeof KINDS): void {
  if (!KINDS[kind](value)) throw invalid(where, `Expected ${kind}, got ${describeKind(value)}`);
}

/**
 * Returns a version or the number of a wait as a segment of a path.
 * @throws {TypeError} for anything but a whole number
 */
export function numberSegment(value: number): string {
  if (Number.isSafeInteger(value) && value >= 0) return String(value);
  const got = typeof value === "number" ? String(value) : describeKind(value);
  throw invalid("argument", `Expected a whole number for the path, got ${got}`);
}

/**
 * Encodes a name or id as a segment of a path.
 * @throws {TypeError} for anything else, and for the names "." and "..", which URLs resolve to another path
 */
export function segment(value: string): string {
  if (typeof value !== "string" || value === "")
    throw invalid(
      "argument",
      `Expected a name or an id for the path, got ${value === "" ? "an empty string" : describeKind(value)}`,
    );
  if (value === "." || value === "..") throw invalid("argument", `The name "${value}" cannot be part of a path`);
  return encodeURIComponent(value);
}

/**
 * Serializes a body. Rejects what JSON would silently leave out or replace.
 * @throws {TypeError} for a value that JSON cannot represent
 */
export function toJsonText(body: unknown): string {
  if (!isPlainObject(body)) throw invalid("body", `Expected a plain object, got ${describeKind(body)}`);
  return JSON.stringify(body, function (this: { readonly [key: string]: unknown }, key, value) {
    const given = this[key];
    const isLost =
      typeof given === "function" ||
      typeof given === "symbol" ||
      typeof given === "bigint" ||
      (typeof given === "number" && !Number.isFinite(given)) ||
      (typeof given === "object" && given !== null && isOpaque(given));
    if (!isLost) return value;
    const shown = typeof given === "number" ? String(given) : describeKind(given);
    throw invalid(key === "" ? "body" : key, `Expected a JSON value, got ${shown}`);
  });
}

const isOpaque = (value: object): boolean =>
  value instanceof Map ||
  value instanceof Set ||
  ArrayBuffer.isView(value) ||
  value instanceof ArrayBuffer ||
  typeof (value as { readonly then?: unknown }).then === "function";
