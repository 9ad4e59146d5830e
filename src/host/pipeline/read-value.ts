// JSON text as a value that fits its schema, for the first stage and the last: at once when it is small; else in slices, with a
// thread for the schema, so that no value holds the event loop.
import { type JsonValue, ToolError } from "../../sandbox/errors.ts";
import type { JsonTextCodes, JsonTextLimits } from "../json-refusals.ts";
import type { CompiledSchema } from "../json-schema/compile-schema.ts";
import type { ValidationOutcome } from "../json-schema/outcome.ts";
import { parseLargeText, parseSmallJson } from "../json-text.ts";
import { problemLine } from "../problem-line.ts";
import type { SchemaThread } from "../schema-thread.ts";
import type { Payer } from "../turns.ts";

/** A well-formed value of this size takes 3 ms; one made of small objects, 15 [m]. */
const DIRECT_BYTES = 256 * 1024;

export interface ValueText {
  readonly text: string | Buffer;
  readonly bounds: JsonTextLimits;
  readonly codes: JsonTextCodes & { readonly invalid: "PARAM_INVALID" | "OUTPUT_INVALID" };
  /** Names the value in messages, e.g. "The output". */
  readonly what: string;
  readonly schema: CompiledSchema | undefined;
  /** Whose value it is, when it is large. */
  readonly payer?: Payer | undefined;
}

/** Of text that {@link isSmallJson}. @throws {ToolError} with one of `codes` */
export function readSmallValue({ text, bounds, codes, what, schema }: ValueText): JsonValue {
  const value = parseSmallJson(text.toString(), bounds, codes, what);
  if (schema !== undefined) checkOutcome(schema.validate(value), codes.invalid, what);
  return value;
}

/** Of any other. Rejects as {@link readSmallValue} throws, or with the signal's reason. */
export async function readLargeValue(
  { text, bounds, codes, what, schema, payer }: ValueText,
  thread: SchemaThread,
  signal: AbortSignal,
): Promise<JsonValue> {
  const value = await parseLargeText(text, bounds, codes, what, signal, payer);
  if (schema === undefined) return value;
  const outcome =
    schema.shallow || text.length <= DIRECT_BYTES
      ? schema.validate(value)
      : await thread.validate(schema, text, signal);
  checkOutcome(outcome, codes.invalid, what);
  return value;
}

/** How a schema's verdict becomes an error: the same for inputs and outputs. */
function checkOutcome(outcome: ValidationOutcome, code: "PARAM_INVALID" | "OUTPUT_INVALID", what: string): void {
  if (outcome.valid) return;
  if (outcome.stopped) throw new ToolError(code, `${what}: ${outcome.message}`);
  const { problems, truncated } = outcome;
  throw new ToolError(code, `${what}: ${problemLine(problems, truncated)}`, { details: { problems, truncated } });
}
