// The one way in which a foreign schema is refused.
import { ToolError } from "../../sandbox/contract/errors.ts";

/** The code that a bad schema gets: a tool's own schema fails its bundle, one in a call's parameters fails the call. */
export type SchemaErrorCode = "BUNDLE_FAILED" | "PARAM_INVALID" | "OUTPUT_INVALID";

const MAX_POINTER_CHARS = 512;

/** Says where in the schema, what would be right and what is there. */
export type RefuseSchema = (pointer: string, expected: string, got: string) => never;

export function createRefuse(code: SchemaErrorCode, subject: string): RefuseSchema {
  return (pointer, expected, got) => {
    const place = pointer.length > MAX_POINTER_CHARS ? `${pointer.slice(0, MAX_POINTER_CHARS)}…` : pointer;
    const where = place === "" ? "" : ` at ${place}`;
    throw new ToolError(code, `The ${subject} is not a usable JSON Schema${where}: expected ${expected}, got ${got}`, {
      details: { schemaPointer: place, expected, got },
    });
  };
}
