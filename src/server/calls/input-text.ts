// The input of a call as JSON text. Serializing a large one holds the event loop, so it is done once, in time slices, before all that need it.
import { type JsonValue, LIMITS, type ToolCall } from "../../host/index.ts";
import { isSmallJson, parseLargeText } from "../../host/json/parse-json.ts";
import { writeJson } from "../../host/json/write-json.ts";

/** Texts of large inputs. */
const texts = new WeakMap<object, string>();

/**
 * Serializes the input of a call in time slices, for all that need its text later. The input must not change afterwards.
 * @param signal ends the work; then the promise rejects with its reason
 */
export async function keepInputText(input: unknown, signal: AbortSignal): Promise<void> {
  if (typeof input === "object" && input !== null) texts.set(input, await writeJson(input as JsonValue, signal));
}

const CODES = { invalid: "PARAM_INVALID", tooLarge: "PARAM_INVALID" } as const;
/** Signal of work that nothing ends. */
export const NEVER: AbortSignal = new AbortController().signal;

/**
 * Parses large JSON text in time slices.
 * @param what names the value in messages
 * @throws {ToolError} PARAM_INVALID, as a rejection, for a value that no tool can receive
 */
export async function parseInputText(text: string, what: string, signal: AbortSignal): Promise<JsonValue> {
  // The limit of bytes was checked when the text was read.
  const limits = { bytes: Number.MAX_SAFE_INTEGER, depth: LIMITS.jsonDepth.max, values: LIMITS.jsonValues.max };
  return await parseLargeText(text, limits, CODES, what, signal);
}

/** Parses the stored input of a call, a large one in time slices. Its text is kept. */
export async function parseInput(text: string): Promise<unknown> {
  if (isSmallJson(text)) return JSON.parse(text);
  try {
    const input = await parseInputText(text, "The input", NEVER);
    if (typeof input === "object" && input !== null) texts.set(input, text);
    return input;
  } catch {
    // No tool can receive it: its call ends with the reason.
    return JSON.parse(text);
  }
}

/** Returns the text of an input that was kept; undefined if none was. */
export const keptInputText = (input: unknown): string | undefined =>
  typeof input === "object" && input !== null ? texts.get(input) : undefined;

/** Returns the input of a call as JSON text. */
export const inputTextOf = (input: unknown): string => keptInputText(input) ?? JSON.stringify(input ?? {});

/** Returns the arguments of a tool call with this input. */
export function toCallArguments(input: unknown): Pick<ToolCall, "arguments" | "argumentsText"> {
  const argumentsText = keptInputText(input);
  return argumentsText === undefined ? { arguments: input ?? {} } : { argumentsText };
}
