// JSON text as a value that fits its schema, for the first stage and the last: at once when it is small; else in slices, with a
// thread for the schema, so that no value holds the event loop.
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { type BinaryAttachments, sizeOfBytes, type ToolValue, withBase64, withBytes } from "../contract/tool-value.ts";
import { formatIssues } from "../json/format-issues.ts";
import type { JsonTextCodes, JsonTextLimits } from "../json/json-errors.ts";
import { checkLargeText, checkSmallJson, isSmallJson, parseLargeText, parseSmallJson } from "../json/parse-json.ts";
import type { CompiledSchema } from "../json-schema/compile-schema.ts";
import type { ValidationOutcome } from "../json-schema/outcome.ts";
import type { SchemaThread } from "../json-schema/worker/schema-thread.ts";
import { type CpuAccount, encodeInTurns } from "../util/time-slicing.ts";

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
  readonly payer?: CpuAccount | undefined;
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

/**
 * The value of any text, with the bytes that belong into it. Its schema is about the JSON that a model would be shown, where bytes are
 * base64. Rejects as {@link readLargeValue}.
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
  const { text, what, payer, schema, bounds } = read;
  if (schema !== undefined) {
    const shown = withBase64(text.toString(), beside);
    const inBase64 = { ...read, text: shown, bounds: { ...bounds, bytes: bounds.bytes + 2 * sizeOfBytes(beside) } };
    if (isSmallJson(shown)) readSmallValue(inBase64);
    else await readLargeValue(inBase64, thread, signal);
  }
  return await withBytes({ value, units: text.length, beside, what }, signal, payer);
}

/** Arguments as they are handed on. */
export interface CheckedInput {
  /** JSON; as bytes where it is large. */
  readonly inputText: string | Buffer;
  /** Bytes that belong into it. */
  readonly inputBytes?: BinaryAttachments | undefined;
  /** Undefined where it need not be read here: who runs the call takes text. */
  readonly input: ToolValue | undefined;
}

/** What we made of the caller's arguments, which is known to be JSON, or text that came as it is. */
export interface InputText extends ValueText {
  readonly text: string;
  /** Whether nobody has parsed the text yet. */
  readonly isForeign?: boolean;
  /** Whether the value is wanted, or the text is enough. */
  readonly wants: "text" | "value";
}

/** Whether nothing has to be known of the value but its bounds. An object is written with its brace first. */
const fitsUnread = ({ schema, text, wants, isForeign }: InputText): boolean =>
  !isForeign && wants === "text" && (schema === undefined || (schema.acceptsObjects && text.startsWith("{")));

/** As {@link readSmallValue}, without a value where none is wanted. */
export function checkSmallInput(read: InputText): CheckedInput {
  const { text, bounds, codes, what } = read;
  if (!fitsUnread(read)) return { inputText: text, input: readSmallValue(read) };
  checkSmallJson(text, bounds, codes, what);
  return { inputText: text, input: undefined };
}

/** As {@link readLargeValue}, without a value where none is wanted: the thread that checks it makes one of its own. */
export async function checkLargeInput(
  read: InputText,
  thread: SchemaThread,
  signal: AbortSignal,
): Promise<CheckedInput> {
  const { text, bounds, codes, what, schema, wants, isForeign } = read;
  const isUnread = fitsUnread(read);
  const inputText = await encodeInTurns(text, signal);
  if (!isUnread && (wants === "value" || isForeign || inputText.length <= DIRECT_BYTES)) {
    return { inputText, input: await readLargeValue({ ...read, text: inputText }, thread, signal) };
  }
  await checkLargeText(inputText, bounds, codes, what, signal);
  if (!isUnread && schema !== undefined) {
    checkOutcome(await thread.validate(schema, inputText, signal), codes.invalid, what);
  }
  return { inputText, input: undefined };
}

/** Arguments that hold bytes. */
export async function checkInputWithBytes(
  read: InputText,
  inputBytes: BinaryAttachments,
  thread: SchemaThread,
  signal: AbortSignal,
): Promise<CheckedInput> {
  const input = await readValueWithBytes(read, inputBytes, thread, signal);
  return { inputText: read.text, inputBytes, input: read.wants === "value" ? input : undefined };
}

/** How a schema's verdict becomes an error: the same for inputs and outputs. */
function checkOutcome(outcome: ValidationOutcome, code: "PARAM_INVALID" | "OUTPUT_INVALID", what: string): void {
  if (outcome.valid) return;
  if (outcome.stopped) throw new ToolError(code, `${what}: ${outcome.message}`);
  const { problems, truncated } = outcome;
  throw new ToolError(code, `${what}: ${formatIssues(problems, truncated)}`, { details: { problems, truncated } });
}
