// Corrects arguments that a model wrote, as far as the host allows: text that is almost JSON, unknown keys, and values of the wrong type.
// The result lists each correction. Validation follows.
import * as z from "zod";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import { type BinaryAttachments, type TextWithBytes, toTextWithBytes, withBase64 } from "../contract/tool-value.ts";
import { formatIssues } from "../json/format-issues.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../json/parse-json.ts";
import type { ValueCoercion } from "../json-schema/coerce.ts";
import type { CompiledSchema } from "../json-schema/compile-schema.ts";
import { parsePointer } from "../json-schema/json-pointer.ts";
import type { SchemaThread } from "../json-schema/worker/schema-thread.ts";
import type { ValueText } from "./read-value.ts";
import { repairText } from "./repair.ts";

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
  /** Whether the text has not been parsed yet. */
  readonly isForeign: boolean;
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
 * @throws {ToolError} PARAM_INVALID for rejected unknown keys, for arguments that take too long, and for text that is not JSON
 */
export async function coerceArguments(given: ArgumentsText, context: CoerceContext): Promise<CoercedText> {
  const { options } = context;
  const repaired = options.repair && given.isForeign ? await repairArguments(given.text, context) : undefined;
  const text = repaired?.text ?? given.text;
  const before: readonly Coercion[] = repaired === undefined ? [] : [repaired.coercion];
  if (options.unknownKeys === "keep" && !options.coerce) return { ...given, text, coercions: before };
  if (given.bytes !== undefined) return await coerceWithBytes(given, given.bytes, context);
  const { value, coercions } = coerceValue(await parse(text, context), context, options);
  if (coercions.length === 0) return { ...given, text, coercions: before };
  // The limits are checked again, because coercion to lists can make the value larger.
  const coerced = JSON.stringify(value);
  return { text: coerced, bytes: undefined, isForeign: false, coercions: [...before, ...coercions] };
}

type ReadContext = Pick<CoerceContext, "bounds" | "codes" | "what" | "signal">;

async function parse(text: string, { bounds, codes, what, signal }: ReadContext): Promise<JsonValue> {
  if (isSmallJson(text)) return parseSmallJson(text, bounds, codes, what);
  return await parseLargeText(text, bounds, codes, what, signal);
}

/** Returns undefined for text that is JSON. @throws {ToolError} PARAM_INVALID, as a rejection, for text that cannot be repaired */
export async function repairArguments(
  text: string,
  context: ReadContext & Pick<CoerceContext, "thread">,
): Promise<{ readonly text: string; readonly coercion: Coercion } | undefined> {
  let refusal: unknown;
  try {
    await parse(text, context);
    return undefined;
  } catch (thrown) {
    refusal = thrown;
  }
  // Text that is too large or too deep is not a slip of the model.
  const isSyntax = Error.isError(refusal) && Error.isError(refusal.cause) && refusal.cause instanceof SyntaxError;
  const repaired = isSyntax ? await repairText(text, context.thread, context.signal) : undefined;
  if (repaired === undefined) throw refusal;
  return { text: repaired, coercion: { kind: "repaired", pointer: "", ...differenceOf(text, repaired) } };
}

const MAX_SHOWN_UNITS = 200;

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
      .slice(0, MAX_SHOWN_UNITS)
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
      `${what}: expected fewer unknown keys, or arguments that are easier to look through`,
    );
  }
  if (unknown.length === 0) return coerced;
  const problems = unknown.map((pointer) => ({ pointer, message: "This key is not known" }));
  throw new ToolError("PARAM_INVALID", `${what}: ${formatIssues(problems)}`, { details: { problems } });
}

/** Looks at keys only, because bytes are not JSON. Does not change the caller's own value. */
async function coerceWithBytes(
  given: ArgumentsText,
  bytes: BinaryAttachments,
  context: CoerceContext,
): Promise<CoercedText> {
  const { unknownKeys } = context.options;
  const keysOf = async ({ text }: TextWithBytes, beside: BinaryAttachments): Promise<readonly ValueCoercion[]> => {
    const shown = await parse(withBase64(text ?? "null", beside), {
      ...context,
      bounds: { ...context.bounds, bytes: Number.POSITIVE_INFINITY },
    });
    return coerceValue(shown, context, { unknownKeys, coerce: false }).coercions;
  };
  const coercions = await keysOf(given, bytes);
  if (coercions.length === 0) return { ...given, coercions };
  const pruned = coercions.reduce((value, { pointer }) => without(value, parsePointer(pointer) ?? []), context.value);
  const made = toTextWithBytes(pruned);
  const left = made.bytes ?? { mark: bytes.mark, parts: [] };
  if (made.text === undefined || (await keysOf(made, left)).length > 0) {
    throw new ToolError(
      "PARAM_INVALID",
      `${context.what}: expected plain objects, from which unknown keys can be taken`,
    );
  }
  return { text: made.text, bytes: made.bytes, isForeign: false, coercions };
}

/** Copies the objects along the path. */
function without(value: unknown, [step, ...rest]: readonly string[]): unknown {
  if (step === undefined || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item, index) => (String(index) === step ? without(item, rest) : item));
  const entries = Object.entries(value);
  return Object.fromEntries(
    rest.length === 0
      ? entries.filter(([key]) => key !== step)
      : entries.map(([key, member]) => [key, key === step ? without(member, rest) : member]),
  );
}
