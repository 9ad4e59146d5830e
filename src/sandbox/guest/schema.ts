// The tool's own schemas, inside the guest: a Standard Schema library validates and transforms; JSON Schema 2020-12 leaves for the host.
import { GUEST_ERROR_CAPS, type GuestIssue } from "../protocol/guest-messages.ts";
import { capText, describeValue, toGuestError } from "./error-text.ts";
import { writeLog } from "./log-lines.ts";
import {
  ArrayIsArray,
  append,
  JSONStringify,
  ReflectApply,
  ReflectSetPrototypeOf,
  StringConstructor,
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

/** `~` and `/` escaped (RFC 6901, section 3). */
function escapePointer(token: string): string {
  let escaped = "";
  for (let index = 0; index < token.length; index += 1) {
    const unit = token[index] as string;
    escaped += unit === "~" ? "~0" : unit === "/" ? "~1" : unit;
  }
  return escaped;
}

function toIssue(issue: StandardIssue): GuestIssue {
  let pointer = "";
  const path = ArrayIsArray(issue.path) ? (issue.path as readonly unknown[]) : [];
  for (let index = 0; index < path.length && index < 100; index += 1) {
    const step = path[index];
    const key = typeof step === "object" && step !== null ? (step as { readonly key: unknown }).key : step;
    pointer += `/${escapePointer(capText(StringConstructor(key), 200))}`;
  }
  return { __proto__: null, pointer, message: capText(describeValue(issue.message), 500) } as unknown as GuestIssue;
}

const NO_RESULT: readonly StandardIssue[] = [{ message: 'The schema returned neither "value" nor "issues"' }];

/** Asks the library to check a value. What it answers may be a promise, and is not believed. */
export function startCheck(schema: StandardSchema, value: unknown): unknown {
  return schema["~standard"].validate(value);
}

/** Returns the issues of a library's settled answer as JSON text; undefined for a valid value. A value that is missing is not valid. */
export function readIssues(result: StandardResult): string | undefined {
  if (result.issues === undefined && "value" in result) return undefined;
  const found = result.issues ?? NO_RESULT;
  const issues: GuestIssue[] = [];
  for (let index = 0; index < found.length && index < GUEST_ERROR_CAPS.issues; index += 1) {
    append(issues, toIssue(found[index] as StandardIssue));
  }
  // Without a prototype the list has no `toJSON` of the guest's.
  ReflectSetPrototypeOf(issues, null);
  return JSONStringify(issues);
}

/**
 * The JSON Schema of one side, or undefined where the library cannot say it: then only the guest checks.
 * Parts that JSON Schema has no word for (dates, transforms) become `{}`.
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
    writeLog("warn", `The ${side} schema has no JSON Schema form, so only the sandbox checks it: ${capText(why, 500)}`);
    return undefined;
  }
}
