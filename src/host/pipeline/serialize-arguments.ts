// Serializes the arguments of a call for the first stage. They may be any value of the caller, such as one that contains itself.
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { type TextWithBytes, toTextWithBytes } from "../contract/tool-value.ts";
import { isOpaque, isValueTooLarge } from "../contract/value-size.ts";
import { JsonErrorFactory, type JsonTextLimits } from "../json/json-errors.ts";
import { describe, invalid } from "./read-fields.ts";

const MAX_SHOWN_LENGTH = 100;
/** Error codes for invalid arguments. */
export const INPUT_CODES = { invalid: "PARAM_INVALID", tooLarge: "PARAM_INVALID" } as const;

/** Number of values that are searched for the reason why JSON.stringify failed. */
const MAX_VISITS = 10_000;

/** Returns the first BigInt, promise, Map, Set or cycle and its path, or undefined if none was found or the value cannot be read. */
function findUnserializable(root: unknown): string | undefined {
  const path = new Set<object>();
  let visits = 0;
  const visit = (value: unknown, pointer: string): string | undefined => {
    visits += 1;
    const where = pointer === "" ? "at the top" : `at ${pointer}`;
    if (typeof value === "bigint") return `a BigInt ${where}`;
    if (typeof value !== "object" || value === null || visits > MAX_VISITS) return undefined;
    if (isOpaque(value)) return `${describeKind(value)} ${where}`;
    if (path.has(value)) return `a cycle ${where}`;
    path.add(value);
    for (const key of Object.keys(value)) {
      const token = key.slice(0, MAX_SHOWN_LENGTH).replaceAll("~", "~0").replaceAll("/", "~1");
      const found = visit((value as { readonly [key: string]: unknown })[key], `${pointer}/${token}`);
      if (found !== undefined || visits > MAX_VISITS) return found;
    }
    path.delete(value);
    return undefined;
  };
  try {
    return visit(root, "");
  } catch {
    return undefined;
  }
}

const BLANK = /^[ \t\r\n]{0,100}$/;

/**
 * Returns the arguments as JSON text with attachments. Text of the caller is returned unparsed.
 * @param what name of the arguments in messages about their size
 * @param where path of the arguments in other messages
 * @throws {ToolError} PARAM_INVALID for a value that is not JSON, or that exceeds the limits
 */
export function serializeArguments(
  envelope: { readonly arguments: unknown; readonly argumentsText?: string | undefined },
  bounds: JsonTextLimits,
  what: string,
  where = "toolCall.arguments",
): { readonly text: string; readonly bytes: TextWithBytes["bytes"] } {
  const { arguments: args, argumentsText } = envelope;
  // Models write blank text if there are no arguments.
  if (argumentsText !== undefined) return { text: BLANK.test(argumentsText) ? "{}" : argumentsText, bytes: undefined };
  if (args === undefined) return { text: "{}", bytes: undefined };
  // The JSON of a promise, a Map or a Set is {}, so the tool would run without that part of its arguments.
  if (isOpaque(args)) throw invalid(where, "a JSON value", describeKind(args));
  let serialized: TextWithBytes;
  try {
    serialized = toTextWithBytes(args, { ...bounds, rejectsOpaque: true });
  } catch (cause) {
    if (isValueTooLarge(cause)) {
      // The walk over a value that contains itself does not end, so it stops at a limit.
      const unserializable = cause.isDeep ? findUnserializable(args) : undefined;
      if (unserializable !== undefined) throw invalid(where, "a JSON value", unserializable);
      const errors = new JsonErrorFactory(bounds, INPUT_CODES, what);
      throw cause.limit === "bytes" ? errors.bytes(undefined) : errors.values();
    }
    // V8 throws a RangeError when its stack or its longest string is exceeded.
    const isRange = Error.isError(cause) && cause instanceof RangeError;
    const fallback = isRange ? "a value too large or nested too deep" : "a value that cannot be read";
    throw invalid(where, "a JSON value", findUnserializable(args) ?? fallback);
  }
  const { text, bytes } = serialized;
  if (text === undefined) throw invalid(where, "a JSON value", describe(args));
  return { text, bytes };
}
