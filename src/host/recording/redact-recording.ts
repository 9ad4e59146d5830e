// The redactor of recordings whose policy says so. The server uses it for its recordings, and a replay for comparing outputs with theirs.
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import { isPlainObject } from "../../sandbox/contract/plain-object.ts";
import { createRedactor } from "../observability/redaction/value-redactor.ts";
import { describe, invalid } from "../pipeline/read-fields.ts";

/** Returns JSON text in which a function has replaced values. What it cannot handle is not recorded at all. */
export function redactJson(text: string, redact: (value: JsonValue) => unknown): string {
  try {
    return JSON.stringify(redact(JSON.parse(text) as JsonValue) ?? null);
  } catch {
    return "null";
  }
}

const LIMITS = { maxTextUnits: 1024 * 1024, maxValues: 100_000, maxDepth: 64 };
/** Created for the first recording that is redacted. */
let redactJsonValue: ((value: unknown) => unknown) | undefined;

/** Whether a value is of a type that JSON has. The values in it are not checked. */
const isJsonType = (value: unknown): boolean =>
  value === null ||
  ["string", "number", "boolean"].includes(typeof value) ||
  Array.isArray(value) ||
  isPlainObject(value);

/**
 * Replaces values that look like secrets or personal data. Its limits are those of a recording, and far larger than those of a log.
 * @throws {ToolError} PARAM_INVALID for what is no JSON value, such as a promise or a Map, of which nothing would be left
 */
export function redactRecording(value: JsonValue): unknown {
  if (!isJsonType(value)) throw invalid("value", "a JSON value", describe(value));
  redactJsonValue ??= createRedactor(LIMITS);
  return redactJsonValue(value);
}
