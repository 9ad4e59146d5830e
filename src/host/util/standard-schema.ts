// Reads what a Standard Schema of the host answers. Only a result with a value and without issues is valid: promises of every realm are
// awaited, and a result of another form is a failure of the schema.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { problemLine } from "../problem-line.ts";
import { isThenable } from "./host-callback.ts";

/** A checked value, transformed as its schema states, or what is wrong with it. */
export type Checked = { readonly value: unknown } | { readonly problem: string };

const MAX_ISSUES = 100;
const INVALID_VALUE = "The value is invalid";

/** Tells whether a value is a Standard Schema: an object or a function with `~standard.validate()`. Never throws. */
export function isStandardSchema(value: unknown): value is StandardSchemaV1 {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false;
  try {
    return typeof (value as Partial<StandardSchemaV1>)["~standard"]?.validate === "function";
  } catch {
    return false;
  }
}

/**
 * Checks a value, at once unless the schema answers with a promise.
 * @param subject names the schema in errors: `inputSchema of capability "kv"`
 * @throws {TypeError} for a result that is neither a value nor issues; and what `validate()` throws. Rejects with both if it is async
 */
export function checkStandard(schema: StandardSchemaV1, value: unknown, subject: string): Checked | Promise<Checked> {
  const result: unknown = schema["~standard"].validate(value);
  if (!isThenable(result)) return readResult(result, subject);
  return Promise.resolve(result).then((settled) => readResult(settled, subject));
}

function readResult(result: unknown, subject: string): Checked {
  if (typeof result === "object" && result !== null) {
    // Some libraries return an instance of a class that has these as getters.
    const { issues } = result as { readonly issues?: unknown };
    if (issues !== undefined) return { problem: describeIssues(issues) };
    if ("value" in result && !isThenable(result.value)) return { value: result.value };
  }
  throw new TypeError(`The ${subject} returned neither "value" nor "issues"`);
}

/** Never throws: whatever the issues are, the value is invalid. */
function describeIssues(issues: unknown): string {
  try {
    if (!Array.isArray(issues) || issues.length === 0) return INVALID_VALUE;
    return problemLine(
      Array.from({ length: Math.min(issues.length, MAX_ISSUES) }, (_, index) => toProblem(issues[index])),
    );
  } catch {
    return INVALID_VALUE;
  }
}

function toProblem(issue: unknown): { readonly pointer: string; readonly message: string } {
  const { message, path } = (issue ?? {}) as { readonly message?: unknown; readonly path?: unknown };
  return {
    pointer: Array.isArray(path) ? path.map(toPointerStep).join("") : "",
    message: typeof message === "string" && message !== "" ? message : INVALID_VALUE,
  };
}

/** Escapes a key as RFC 6901 states. */
function toPointerStep(step: unknown): string {
  const key: unknown = typeof step === "object" && step !== null ? (step as { readonly key?: unknown }).key : step;
  return `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
