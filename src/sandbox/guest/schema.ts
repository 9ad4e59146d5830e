// Handles the tool's own schemas inside the guest: a Standard Schema library validates and transforms values here, and converts its schemas
// to JSON Schema 2020-12 for the host.
import { GUEST_ERROR_LIMITS, type GuestIssue } from "../protocol/guest-messages.ts";
import { describeValue, toGuestError, truncateText } from "./error-text.ts";
import { escapePointer } from "./json-pointer.ts";
import { writeLog } from "./log-lines.ts";
import {
  ArrayIsArray,
  append,
  JSONStringify,
  ObjectKeys,
  ObjectPrototypeToString,
  ReflectApply,
  ReflectGetPrototypeOf,
  ReflectSetPrototypeOf,
  SetConstructor,
  SetPrototypeAdd,
  SetPrototypeHas,
  StringConstructor,
  StringPrototypeSlice,
} from "./primordials.ts";

interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[];
}
export type StandardResult =
  | { readonly value: unknown; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };
type JsonSchemaSide = (options: object) => unknown;

/** Standard Schema 1.1 (`~standard`), with its optional JSON Schema part. */
export interface StandardSchema {
  readonly "~standard": {
    readonly validate: (value: unknown) => StandardResult | Promise<StandardResult>;
    readonly vendor?: unknown;
    readonly jsonSchema?: { readonly input?: JsonSchemaSide; readonly output?: JsonSchemaSide };
  };
}

export function isStandardSchema(schema: unknown): schema is StandardSchema {
  if ((typeof schema !== "object" || schema === null) && typeof schema !== "function") return false;
  const standard = (schema as { readonly "~standard"?: { readonly validate?: unknown } })["~standard"];
  return typeof standard === "object" && standard !== null && typeof standard.validate === "function";
}

/** Maximum number of values of a definition that are checked. A schema of the largest size has fewer. */
const MAX_CHECKED = 100_000;

/** Returns what a value is whose contents JSON would drop, so that a schema would accept anything. */
function nonJsonKind(value: object, isNested: boolean, isSchema: boolean): string | undefined {
  if (isNested && isSchema && isStandardSchema(value)) return "a Standard Schema";
  if (typeof (value as { readonly then?: unknown }).then === "function") return "a promise that is not awaited";
  const tag = StringPrototypeSlice(ObjectPrototypeToString(value), 8, -1);
  const hasText = typeof (value as { readonly toJSON?: unknown }).toJSON === "function";
  // JSON makes a string of a date, which is not a schema.
  if (hasText && (isNested || tag !== "Date")) return undefined;
  if (tag !== "Object" && tag !== "Array" && tag !== "Module") return `an object of type ${truncateText(tag, 40)}`;
  const prototype = ReflectGetPrototypeOf(value);
  const isPlain = prototype === null || ReflectGetPrototypeOf(prototype) === null || tag === "Array";
  return isPlain || ObjectKeys(value).length > 0 ? undefined : "an object without properties of its own";
}

/**
 * Finds a value in an object of the definition that JSON would turn into an empty object: a promise, a Map, an error …
 * @param isSchema whether a schema of a library is rejected inside of it
 */
export function findNonJson(root: unknown, isSchema: boolean): string | undefined {
  const seen = new SetConstructor<object>();
  const visit = (value: unknown, pointer: string): string | undefined => {
    if (typeof value !== "object" || value === null || SetPrototypeHas(seen, value)) return undefined;
    SetPrototypeAdd(seen, value);
    left -= 1;
    if (left < 0) return undefined;
    const kind = nonJsonKind(value, pointer !== "", isSchema);
    if (kind !== undefined) return pointer === "" ? kind : `${kind} at ${truncateText(pointer, 200)}`;
    const keys = ObjectKeys(value);
    for (let index = 0; index < keys.length; index += 1) {
      const key = keys[index] as string;
      const found = visit((value as { readonly [key: string]: unknown })[key], `${pointer}/${escapePointer(key)}`);
      if (found !== undefined) return found;
    }
    return undefined;
  };
  let left = MAX_CHECKED;
  return visit(root, "");
}

function toIssue(issue: StandardIssue): GuestIssue {
  let pointer = "";
  const path = ArrayIsArray(issue.path) ? (issue.path as readonly unknown[]) : [];
  for (let index = 0; index < path.length && index < 100; index += 1) {
    const step = path[index];
    const key = typeof step === "object" && step !== null ? (step as { readonly key: unknown }).key : step;
    pointer += `/${escapePointer(truncateText(StringConstructor(key), 200))}`;
  }
  return {
    __proto__: null,
    pointer,
    message: truncateText(describeValue(issue.message), 500),
  } as unknown as GuestIssue;
}

const NO_RESULT: readonly StandardIssue[] = [{ message: 'The schema returned neither "value" nor "issues"' }];

/** Validates a value with the library. The result may be a promise and is untrusted. */
export function startCheck(schema: StandardSchema, value: unknown): unknown {
  return schema["~standard"].validate(value);
}

/** Returns the issues of a validation result as JSON text, or undefined if the value is valid. A result without a value is invalid. */
export function readIssues(result: StandardResult): string | undefined {
  if (result.issues === undefined && "value" in result) return undefined;
  const found = result.issues ?? NO_RESULT;
  const issues: GuestIssue[] = [];
  for (let index = 0; index < found.length && index < GUEST_ERROR_LIMITS.issues; index += 1) {
    append(issues, toIssue(found[index] as StandardIssue));
  }
  // Remove the prototype, so that JSON.stringify does not call a `toJSON` that the tool has put on it.
  ReflectSetPrototypeOf(issues, null);
  return JSONStringify(issues);
}

/**
 * Returns the JSON Schema of one side, or undefined if the library cannot convert it; then only the guest validates. Parts that JSON Schema
 * cannot express (dates, transforms) become `{}`.
 */
export function toJsonSchema(schema: unknown, side: "input" | "output"): unknown {
  if (!isStandardSchema(schema)) return schema;
  const converter = schema["~standard"].jsonSchema;
  const convert = converter?.[side];
  if (typeof convert !== "function") return undefined;
  try {
    return ReflectApply(convert, converter, [{ target: "draft-2020-12", libraryOptions: { unrepresentable: "any" } }]);
  } catch (thrown) {
    const why = toGuestError(thrown).message;
    writeLog(
      "warn",
      `The ${side} schema has no JSON Schema form, so only the sandbox checks it: ${truncateText(why, 500)}`,
    );
    return undefined;
  }
}
