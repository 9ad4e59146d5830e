// Reads JSON columns. Rows may hold what another version of the server wrote, or what someone changed by hand, so each is parsed by a schema.
import type * as z from "zod";
import { ToolError } from "../../host/index.ts";

/** @throws {ToolError} INTERNAL if the column does not hold what the schema describes */
export function parseColumn<Value>(schema: z.ZodType<Value>, text: string, what: string): Value {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ToolError("INTERNAL", `The database holds an invalid ${what}`, { cause });
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new ToolError("INTERNAL", `The database holds an invalid ${what}`, { cause: parsed.error });
}
