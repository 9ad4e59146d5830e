// The input of a call as JSON text. Serializing a large one holds the event loop, so it is done once, in time slices, before all that need it.
import type { JsonValue, ToolCall } from "../../host/index.ts";
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

/** Returns the text of an input that was kept; undefined if none was. */
export const keptInputText = (input: unknown): string | undefined =>
  typeof input === "object" && input !== null ? texts.get(input) : undefined;

/** Returns the input of a call as JSON text. */
export const inputTextOf = (input: unknown): string => keptInputText(input) ?? JSON.stringify(input ?? {});

/** Returns the arguments of a tool call with this input. */
export function toArguments(input: unknown): Pick<ToolCall, "arguments" | "argumentsText"> {
  const argumentsText = keptInputText(input);
  return argumentsText === undefined ? { arguments: input ?? {} } : { argumentsText };
}
