// Corrects the arguments that a model wrote, as the host's options allow: it repairs text that is almost JSON, handles unknown keys, and
// converts values of the wrong type. The result lists each correction. The corrected arguments are validated afterwards.
import * as z from "zod";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import { type BinaryAttachments, type TextWithBytes, toTextWithBytes, withBase64 } from "../contract/tool-value.ts";
import { formatIssues } from "../json/format-issues.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../json/parse-json.ts";
import type { ValueCoercion } from "../json-schema/coercion/coerce.ts";
import type { CompiledSchema } from "../json-schema/compile-schema.ts";
import { parsePointer } from "../json-schema/json-pointer.ts";
import type { SchemaThread } from "../json-schema/worker/schema-thread.ts";
import type { ValueText } from "./read-value.ts";

/** How invalid arguments are corrected. Default: not at all. */
export interface ArgumentOptions {
  /** Repairs text (`argumentsText`) of up to 64 KiB that is almost JSON. */
  readonly repair?: boolean | undefined;
  /**
   * Keys that the schema does not name: `keep` leaves them to the schema, `prune` removes them, `reject` rejects the call. If the schema
   * explicitly allows other keys, or names none, every key counts as known.
   */
  readonly unknownKeys?: "keep" | "prune" | "reject" | undefined;
  /** Converts values of the wrong type if nothing is lost: `"3"` to 3, `null` to a missing optional value. */
  readonly coerce?: boolean | undefined;
}

export const ArgumentOptionsSchema: z.ZodType<ArgumentOptions> = strictObject({
  repair: z.boolean().optional(),
  unknownKeys: z.enum(["keep", "prune", "reject"]).optional(),
  coerce: z.boolean().optional(),
});

/** {@link ArgumentOptions} with all defaults applied. */
export interface ArgumentHandling {
  readonly repair: boolean;
  readonly unknownKeys: "keep" | "prune" | "reject";
  readonly coerce: boolean;
}

/** A correction of the arguments of a call. */
export type Coercion =
  | ValueCoercion
  /** For a repair of the text, which is always first: the differing part before and after, each cut to 200 characters. */
  | { readonly kind: "repaired"; readonly pointer: ""; readonly was: string; readonly became: string };

/** @throws {ToolError} PARAM_INVALID, naming `where` */
export function parseArgumentOptions(options: unknown, where: string): ArgumentOptions | undefined {
  return options === undefined ? undefined : parseOptions(ArgumentOptionsSchema, options, where);
}

/** Returns the options in effect for a call: its own, its tool's or the host's. Undefined if nothing is to be corrected. */
export function resolveArgumentOptions(
  host: ArgumentOptions | undefined,
  tool: ArgumentOptions | undefined,
  call: ArgumentOptions | undefined,
): ArgumentHandling | undefined {
  if (host === undefined && tool === undefined && call === undefined) return undefined;
  const repair = call?.repair ?? tool?.repair ?? host?.repair ?? false;
  const unknownKeys = call?.unknownKeys ?? tool?.unknownKeys ?? host?.unknownKeys ?? "keep";
  const coerce = call?.coerce ?? tool?.coerce ?? host?.coerce ?? false;
  return repair || coerce || unknownKeys !== "keep" ? { repair, unknownKeys, coerce } : undefined;
}

/** Arguments while they are corrected. */
export interface ArgumentsText {
  readonly text: string;
  readonly bytes: BinaryAttachments | undefined;
  /** Whether the text is the caller's own and has not been parsed yet. */
  readonly isUntrusted: boolean;
}

export interface CoercedText extends ArgumentsText {
  readonly coercions: readonly Coercion[];
}

export interface CoerceContext extends Pick<ValueText, "bounds" | "codes" | "what"> {
  readonly schema: CompiledSchema;
  readonly options: ArgumentHandling;
  readonly thread: SchemaThread;
  readonly signal: AbortSignal;
  /** The caller's value, if it contains bytes. */
  readonly value: unknown;
}

/**
 * Corrects arguments within the size limits of any arguments and the time limit of one validation.
 * @throws {ToolError} PARAM_INVALID for rejected unknown keys, for arguments that take too long, and for invalid JSON
 */
export async function coerceArguments(given: ArgumentsText, context: CoerceContext): Promise<CoercedText> {
  const { options } = context;
  const repaired = options.repair && given.isUntrusted ? await repairArguments(given.text, context) : undefined;
  const text = repaired?.text ?? given.text;
  const before: readonly Coercion[] = repaired === undefined ? [] : [repaired.coercion];
  if (options.unknownKeys === "keep" && !options.coerce) return { ...given, text, coercions: before };
  if (given.bytes !== undefined) return await coerceWithBytes(given, given.bytes, context);
  const { value, coercions } = coerceValue(await parse(text, context), context, options);
  if (coercions.length === 0) return { ...given, text, coercions: before };
  // The limits are checked again, because coercion to lists can make the value larger.
  const coerced = JSON.stringify(value);
  return { text: coerced, bytes: undefined, isUntrusted: false, coercions: [...before, ...coercions] };
}

type ReadContext = Pick<CoerceContext, "bounds" | "codes" | "what" | "signal">;

async function parse(text: string, { bounds, codes, what, signal }: ReadContext): Promise<JsonValue> {
  if (isSmallJson(text)) return parseSmallJson(text, bounds, codes, what);
  return await parseLargeText(text, bounds, codes, what, signal);
}

/**
 * Repairs text that is not valid JSON. Returns undefined for valid JSON.
 * @throws {ToolError} PARAM_INVALID, as a rejection, for text that cannot be repaired
 */
export async function repairArguments(
  text: string,
  context: ReadContext & Pick<CoerceContext, "thread">,
): Promise<{ readonly text: string; readonly coercion: Coercion } | undefined> {
  let failure: unknown;
  try {
    await parse(text, context);
    return undefined;
  } catch (thrown) {
    failure = thrown;
  }
  // Only syntax errors are repaired, not text that is too large or nested too deeply.
  const isSyntax = Error.isError(failure) && Error.isError(failure.cause) && failure.cause instanceof SyntaxError;
  const repaired = isSyntax ? await repairText(text, context.thread, context.signal) : undefined;
  if (repaired === undefined) throw failure;
  return { text: repaired, coercion: { kind: "repaired", pointer: "", ...differenceOf(text, repaired) } };
}

/**
 * Maximum length of text that is repaired. For some texts, jsonrepair's time grows with the square of their length: 16 KiB of `["{{{` take
 * 0.1 s, and 64 KiB take 7 s (measured). For others, it needs a deep stack. So only short text is repaired at once, and longer text in a
 * thread that can be stopped.
 */
const MAX_REPAIRED_LENGTH = 64 * 1024;
/**
 * Maximum length of text that is repaired without the thread. The worst text of this size takes 1 ms,
 * or 20 ms before V8 has compiled the code (measured).
 */
const MAX_SYNC_LENGTH = 1_024;

/**
 * Keeps a backslash that starts no escape, such as in a pattern's `\d`: jsonrepair would drop it. Escapes of other languages and of
 * Markdown (`\'`, `\_`) are left to jsonrepair.
 */
const keepBackslashes = (text: string): string =>
  text.replaceAll(/\\([\s\S])/g, (pair, next: string) => (/[ac-eg-mo-qsv-zA-Z0-9.]/.test(next) ? `\\${pair}` : pair));

/** Returns the repaired text, or undefined if it cannot be repaired in time. Rejects with the signal's reason. */
async function repairText(given: string, thread: SchemaThread, signal: AbortSignal): Promise<string | undefined> {
  if (given.length > MAX_REPAIRED_LENGTH) return undefined;
  const text = keepBackslashes(given);
  if (text.length > MAX_SYNC_LENGTH) return await thread.repair(text, signal);
  // Loaded only when the option is used.
  const { jsonrepair } = await import("jsonrepair");
  try {
    return jsonrepair(text);
  } catch {
    return undefined;
  }
}

const MAX_SHOWN_LENGTH = 200;

/** Returns the part that differs between two texts, without their common start and end. */
function differenceOf(before: string, after: string): { readonly was: string; readonly became: string } {
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < shorter - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const show = (text: string): string =>
    text
      .slice(start, text.length - end)
      .slice(0, MAX_SHOWN_LENGTH)
      .toWellFormed();
  return { was: show(before), became: show(after) };
}

function coerceValue(
  value: unknown,
  { schema, what }: CoerceContext,
  { unknownKeys, coerce }: Omit<ArgumentHandling, "repair">,
): { readonly value: unknown; readonly coercions: readonly ValueCoercion[] } {
  const { unknown, stopped, ...coerced } = schema.coerce(value, { unknownKeys, coerce });
  if (stopped && unknownKeys !== "keep") {
    throw new ToolError(
      "PARAM_INVALID",
      `${what}: looking for unknown keys took too long; send fewer or smaller values`,
    );
  }
  if (unknown.length === 0) return coerced;
  const issues = unknown.map((pointer) => ({ pointer, message: "Unknown key" }));
  throw new ToolError("PARAM_INVALID", `${what}: ${formatIssues(issues)}`, { details: { problems: issues } });
}

/** Handles only unknown keys, because bytes are not JSON. Does not change the caller's own value. */
async function coerceWithBytes(
  given: ArgumentsText,
  bytes: BinaryAttachments,
  context: CoerceContext,
): Promise<CoercedText> {
  const { unknownKeys } = context.options;
  const findKeys = async (
    { text }: TextWithBytes,
    attachments: BinaryAttachments,
  ): Promise<readonly ValueCoercion[]> => {
    const value = await parse(withBase64(text ?? "null", attachments), {
      ...context,
      bounds: { ...context.bounds, bytes: Number.POSITIVE_INFINITY },
    });
    return coerceValue(value, context, { unknownKeys, coerce: false }).coercions;
  };
  const coercions = await findKeys(given, bytes);
  if (coercions.length === 0) return { ...given, coercions };
  const pruned = coercions.reduce((value, { pointer }) => removeKey(value, parsePointer(pointer) ?? []), context.value);
  const serialized = toTextWithBytes(pruned);
  const remaining = serialized.bytes ?? { mark: bytes.mark, parts: [] };
  if (serialized.text === undefined || (await findKeys(serialized, remaining)).length > 0) {
    throw new ToolError(
      "PARAM_INVALID",
      `${context.what}: expected plain objects, because unknown keys cannot be removed from other values`,
    );
  }
  return { text: serialized.text, bytes: serialized.bytes, isUntrusted: false, coercions };
}

/** Returns the value without one key. Copies only the objects along the path. */
function removeKey(value: unknown, [step, ...rest]: readonly string[]): unknown {
  if (step === undefined || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item, index) => (String(index) === step ? removeKey(item, rest) : item));
  const entries = Object.entries(value);
  return Object.fromEntries(
    rest.length === 0
      ? entries.filter(([key]) => key !== step)
      : entries.map(([key, member]) => [key, key === step ? removeKey(member, rest) : member]),
  );
}
