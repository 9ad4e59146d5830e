// Parses JSON text and validates it against a schema, for the validate and normalize stages. Small values are processed at once. Large ones
// are parsed in time slices and validated in a thread, so that no value blocks the event loop.
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { type BinaryAttachments, sizeOfBytes, type ToolValue, withBase64, withBytes } from "../contract/tool-value.ts";
import { formatIssues } from "../json/format-issues.ts";
import type { JsonTextCodes, JsonTextLimits } from "../json/json-errors.ts";
import { checkLargeText, checkSmallJson, isSmallJson, parseLargeText, parseSmallJson } from "../json/parse-json.ts";
import type { CompiledSchema } from "../json-schema/compile-schema.ts";
import type { ValidationOutcome } from "../json-schema/outcome.ts";
import type { SchemaThread } from "../json-schema/worker/schema-thread.ts";
import { type CpuAccount, encodeTimeSliced } from "../util/time-slicing.ts";

/** Larger values are validated in a thread. A typical value of this size takes 3 ms, one of many small objects 15 ms (measured). */
const DIRECT_BYTES = 256 * 1024;

export interface ValueText {
  readonly text: string | Buffer;
  readonly bounds: JsonTextLimits;
  readonly codes: JsonTextCodes & { readonly invalid: "PARAM_INVALID" | "OUTPUT_INVALID" };
  /** Names the value in messages, e.g. "The output". */
  readonly what: string;
  readonly schema: CompiledSchema | undefined;
  /** CPU account of the tenant, which is charged for a large value. */
  readonly cpuAccount?: CpuAccount | undefined;
}

/** Returns the value of text for which {@link isSmallJson} is true. @throws {ToolError} with one of `codes` */
export function readSmallValue({ text, bounds, codes, what, schema }: ValueText): JsonValue {
  const value = parseSmallJson(text.toString(), bounds, codes, what);
  if (schema !== undefined) checkOutcome(schema.validate(value), codes.invalid, what);
  return value;
}

/** Returns the value of any text. Rejects with the errors of {@link readSmallValue}, or with the signal's reason. */
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
 * Returns the value of any text with its bytes. A schema is applied to the JSON that a model is shown, in which bytes are base64. Rejects as
 * {@link readLargeValue} does.
 */
export async function readValueWithBytes(
  read: ValueText,
  attachments: BinaryAttachments | undefined,
  thread: SchemaThread,
  signal: AbortSignal,
): Promise<ToolValue> {
  const plain = attachments === undefined ? read : { ...read, schema: undefined };
  const value = isSmallJson(read.text) ? readSmallValue(plain) : await readLargeValue(plain, thread, signal);
  if (attachments === undefined) return value;
  const { text, what, cpuAccount, schema, bounds } = read;
  if (schema !== undefined) {
    const base64Text = withBase64(text.toString(), attachments);
    const inBase64 = {
      ...read,
      text: base64Text,
      bounds: { ...bounds, bytes: bounds.bytes + 2 * sizeOfBytes(attachments) },
    };
    if (isSmallJson(base64Text)) readSmallValue(inBase64);
    else await readLargeValue(inBase64, thread, signal);
  }
  return await withBytes({ value, textLength: text.length, attachments, what }, signal, cpuAccount);
}

/** Validated arguments, as they are passed to the next stage. */
export interface CheckedInput {
  /** JSON text, as bytes if large. */
  readonly inputText: string | Buffer;
  /** Attached bytes. */
  readonly inputBytes?: BinaryAttachments | undefined;
  /** Parsed value, or undefined if the executor takes text. */
  readonly input: ToolValue | undefined;
}

/** Arguments as JSON text: serialized by this process, or the caller's own text. */
export interface InputText extends ValueText {
  readonly text: string;
  /** Whether the text is the caller's own and has not been parsed yet. */
  readonly isUntrusted?: boolean;
  /** Whether the parsed value is needed, or the text is enough. */
  readonly wants: "text" | "value";
}

/** Returns whether the text is valid without being parsed, so that only its limits must be checked. An object's text starts with a brace. */
const isValidUnparsed = ({ schema, text, wants, isUntrusted }: InputText): boolean =>
  !isUntrusted && wants === "text" && (schema === undefined || (schema.acceptsObjects && text.startsWith("{")));

/** Checks text for which {@link isSmallJson} is true. Parses it only if that is necessary. @throws {ToolError} with one of `codes` */
export function checkSmallInput(read: InputText): CheckedInput {
  const { text, bounds, codes, what } = read;
  if (!isValidUnparsed(read)) return { inputText: text, input: readSmallValue(read) };
  checkSmallJson(text, bounds, codes, what);
  return { inputText: text, input: undefined };
}

/**
 * Checks large text. The host parses it only if the value is needed; the schema thread parses its own copy. Rejects as
 * {@link readLargeValue} does.
 */
export async function checkLargeInput(
  read: InputText,
  thread: SchemaThread,
  signal: AbortSignal,
): Promise<CheckedInput> {
  const { text, bounds, codes, what, schema, wants, isUntrusted } = read;
  const isUnparsed = isValidUnparsed(read);
  const inputText = await encodeTimeSliced(text, signal);
  if (!isUnparsed && (wants === "value" || isUntrusted || inputText.length <= DIRECT_BYTES)) {
    return { inputText, input: await readLargeValue({ ...read, text: inputText }, thread, signal) };
  }
  await checkLargeText(inputText, bounds, codes, what, signal);
  if (!isUnparsed && schema !== undefined) {
    checkOutcome(await thread.validate(schema, inputText, signal), codes.invalid, what);
  }
  return { inputText, input: undefined };
}

/** Checks arguments that contain bytes. Rejects as {@link readLargeValue} does. */
export async function checkInputWithBytes(
  read: InputText,
  inputBytes: BinaryAttachments,
  thread: SchemaThread,
  signal: AbortSignal,
): Promise<CheckedInput> {
  const input = await readValueWithBytes(read, inputBytes, thread, signal);
  return { inputText: read.text, inputBytes, input: read.wants === "value" ? input : undefined };
}

/** @throws {ToolError} for an invalid outcome of a schema */
function checkOutcome(outcome: ValidationOutcome, code: "PARAM_INVALID" | "OUTPUT_INVALID", what: string): void {
  if (outcome.valid) return;
  if (outcome.stopped) throw new ToolError(code, `${what}: ${outcome.message}`);
  const { issues, truncated } = outcome;
  throw new ToolError(code, `${what}: ${formatIssues(issues, truncated)}`, {
    details: { problems: issues, truncated },
  });
}
