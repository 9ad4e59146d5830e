// Creates the error for an invalid schema.
import { ToolError } from "../../../sandbox/contract/errors.ts";

/** Code of the error for an invalid schema: a tool's own schema fails its bundle, a schema in a call's arguments fails the call. */
export type SchemaErrorCode = "BUNDLE_FAILED" | "PARAM_INVALID" | "OUTPUT_INVALID";

const MAX_POINTER_LENGTH = 512;

/** Throws the error for one position in a schema. */
export type RejectSchema = (pointer: string, expected: string, got: string) => never;

export function createReject(code: SchemaErrorCode, subject: string): RejectSchema {
  return (pointer, expected, got) => {
    const shown = pointer.length > MAX_POINTER_LENGTH ? `${pointer.slice(0, MAX_POINTER_LENGTH)}…` : pointer;
    const where = shown === "" ? "" : ` at ${shown}`;
    throw new ToolError(code, `The ${subject} is not a usable JSON Schema${where}: expected ${expected}, got ${got}`, {
      details: { schemaPointer: shown, expected, got },
    });
  };
}
