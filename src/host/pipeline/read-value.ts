// Parses JSON text and validates it against a schema, for the first and the last stage. Small values are processed at once; large ones in
// time slices, with a thread for the schema, so that no value blocks the event loop.
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { type BinaryAttachments, sizeOfBytes, type ToolValue, withBase64, withBytes } from "../contract/tool-value.ts";
import { formatIssues } from "../json/format-issues.ts";
import type { JsonTextCodes, JsonTextLimits } from "../json/json-errors.ts";
import { checkLargeText, checkSmallJson, isSmallJson, parseLargeText, parseSmallJson } from "../json/parse-json.ts";
import type { CompiledSchema } from "../json-schema/compile-schema.ts";
import type { ValidationOutcome } from "../json-schema/outcome.ts";
import type { SchemaThread } from "../json-schema/worker/schema-thread.ts";
import { type CpuAccount, encodeTimeSliced } from "../util/time-slicing.ts";

/** A well-formed value of this size takes 3 ms; one made of small objects takes 15 ms (measured). */
const DIRECT_BYTES = 256 * 1024;

export interface ValueText {
  readonly text: string | Buffer;
  readonly bounds: JsonTextLimits;
  readonly codes: JsonTextCodes & { readonly invalid: "PARAM_INVALID" | "OUTPUT_INVALID" };
  /** Names the value in messages, e.g. "The output". */
  readonly what: string;
  readonly schema: CompiledSchema | undefined;
  /** Tenant of a large value. */
  readonly cpuAccount?: CpuAccount | undefined;
}

/** For text that is {@link isSmallJson}. @throws {ToolError} with one of `codes` */
export function readSmallValue({ text, bounds, codes, what, schema }: ValueText): JsonValue {
  const value = parseSmallJson(text.toString(), bounds, codes, what);
  if (schema !== undefined) checkOutcome(schema.validate(value), codes.invalid, what);
  return value;
}

/** For any text. Rejects as {@link readSmallValue} throws, or with the signal's reason. */
export async function readLargeValue(
  { text, bounds, codes, what, schema, cpuAccount }: ValueText,
  thread: SchemaThread,
  signal: AbortSignal,
): Promise<JsonValue> {
  const value = await parseLargeText(text, bounds, codes, what, signal, cpuAccount);
  if (schema === undefined) return value;
  const outcome =
    schema.shallow || text.length <= DIRECT_BYTES
      ? schema.validate(value)
      : await thread.validate(schema, text, signal);
  checkOutcome(outcome, codes.invalid, what);
  return value;
}

/**
 * Returns the value of any text with its bytes. Schemas see the JSON that a model would be shown, in which bytes are base64. Rejects as
 * {@link readLargeValue}.
 */
export async function readValueWithBytes(
  read: ValueText,
  beside: BinaryAttachments | undefined,
  thread: SchemaThread,
  signal: AbortSignal,
): Promise<ToolValue> {
  const plain = beside === undefined ? read : { ...read, schema: undefined };
  const value = isSmallJson(read.text) ? readSmallValue(plain) : await readLargeValue(plain, thread, signal);
  if (beside === undefined) return value;
  const { text, what, cpuAccount, schema, bounds } = read;
  if (schema !== undefined) {
    const shown = withBase64(text.toString(), beside);
    const inBase64 = { ...read, text: shown, bounds: { ...bounds, bytes: bounds.bytes + 2 * sizeOfBytes(beside) } };
    if (isSmallJson(shown)) readSmallValue(inBase64);
    else await readLargeValue(inBase64, thread, signal);
  }
  return await withBytes({ value, units: text.length, beside, what }, signal, cpuAccount);
}

/** Arguments as they are passed on. */
export interface CheckedInput {
  /** JSON text, as bytes if large. */
  readonly inputText: string | Buffer;
  /** Attached bytes. */
  readonly inputBytes?: BinaryAttachments | undefined;
  /** Parsed value, or undefined if the executor takes text. */
  readonly input: ToolValue | undefined;
}

/** Arguments that are known to be JSON, or unparsed text of the caller. */
export interface InputText extends ValueText {
  readonly text: string;
  /** Whether the text has not been parsed yet. */
  readonly isForeign?: boolean;
  /** Whether the parsed value is needed, or the text is enough. */
  readonly wants: "text" | "value";
}

/** Returns whether only the size limits must be checked. An object's text starts with a brace. */
const fitsUnread = ({ schema, text, wants, isForeign }: InputText): boolean =>
  !isForeign && wants === "text" && (schema === undefined || (schema.acceptsObjects && text.startsWith("{")));

/** As {@link readSmallValue}, without a value if none is needed. */
export function checkSmallInput(read: InputText): CheckedInput {
  const { text, bounds, codes, what } = read;
  if (!fitsUnread(read)) return { inputText: text, input: readSmallValue(read) };
  checkSmallJson(text, bounds, codes, what);
  return { inputText: text, input: undefined };
}

/** As {@link readLargeValue}, without a value if none is needed: the validation thread parses its own copy. */
export async function checkLargeInput(
  read: InputText,
  thread: SchemaThread,
  signal: AbortSignal,
): Promise<CheckedInput> {
  const { text, bounds, codes, what, schema, wants, isForeign } = read;
  const isUnread = fitsUnread(read);
  const inputText = await encodeTimeSliced(text, signal);
  if (!isUnread && (wants === "value" || isForeign || inputText.length <= DIRECT_BYTES)) {
    return { inputText, input: await readLargeValue({ ...read, text: inputText }, thread, signal) };
  }
  await checkLargeText(inputText, bounds, codes, what, signal);
  if (!isUnread && schema !== undefined) {
    checkOutcome(await thread.validate(schema, inputText, signal), codes.invalid, what);
  }
  return { inputText, input: undefined };
}

/** Reads arguments that contain bytes. */
export async function checkInputWithBytes(
  read: InputText,
  inputBytes: BinaryAttachments,
  thread: SchemaThread,
  signal: AbortSignal,
): Promise<CheckedInput> {
  const input = await readValueWithBytes(read, inputBytes, thread, signal);
  return { inputText: read.text, inputBytes, input: read.wants === "value" ? input : undefined };
}

/** Converts the result of a schema to an error, for inputs and outputs alike. */
function checkOutcome(outcome: ValidationOutcome, code: "PARAM_INVALID" | "OUTPUT_INVALID", what: string): void {
  if (outcome.valid) return;
  if (outcome.stopped) throw new ToolError(code, `${what}: ${outcome.message}`);
  const { problems, truncated } = outcome;
  throw new ToolError(code, `${what}: ${formatIssues(problems, truncated)}`, { details: { problems, truncated } });
}
