// Reads the fields of a caller's objects for the first stage of a call. It uses no schema library, because it runs on every call.

import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { unknownOptionError } from "../config/option-errors.ts";

const MAX_ID_LENGTH = 1_024;
const MAX_SHOWN_LENGTH = 100;

/** Describes a value for a message, briefly and without reading properties that could throw. */
export function describe(value: unknown): string {
  switch (typeof value) {
    case "string":
      return value.length > MAX_SHOWN_LENGTH ? `text of ${value.length} characters` : JSON.stringify(value);
    case "number":
      return String(value);
    case "undefined":
      return "nothing";
    case "object":
      return value === null ? "null" : describeKind(value);
    default:
      return `a ${typeof value}`;
  }
}

/** Creates the error for an invalid argument of the caller. @param where its path, such as `context.tenantId` */
export function invalid(where: string, expected: string, got: string): ToolError {
  return new ToolError("PARAM_INVALID", `${where}: expected ${expected}, got ${got}`, {
    details: { problems: [{ path: where, expected, got }] },
  });
}

/** @throws {ToolError} PARAM_INVALID for anything but a text of 1 to 1,024 characters */
export function readText(value: unknown, where: string): string {
  if (typeof value !== "string" || value.length === 0 || value.length > MAX_ID_LENGTH) {
    throw invalid(where, `text of 1 to ${MAX_ID_LENGTH} characters`, describe(value));
  }
  return value;
}

/** Reads fields of a caller's object, which may be any value, including a proxy that throws. */
export function readFields<Fields>(where: string, read: () => Fields): Fields {
  try {
    return read();
  } catch (cause) {
    if (Error.isError(cause) && cause instanceof ToolError) throw cause;
    throw new ToolError("PARAM_INVALID", `${where}: expected a plain object, got one whose fields cannot be read`, {
      cause,
    });
  }
}

/**
 * Rejects an unknown key, even if its value is undefined.
 * @throws {ToolError} PARAM_INVALID with the path and the closest known key
 */
export function checkKeys(fields: object, where: string, known: readonly string[]): void {
  for (const key of Object.keys(fields)) {
    if (!known.includes(key)) throw unknownOptionError(where, key, known);
  }
}
