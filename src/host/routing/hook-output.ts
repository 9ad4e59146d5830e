// Reads the output or error that a `result` hook returns in place of the tool's own.
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { ToolUsage } from "../contract/tool-call.ts";
import { toTextWithBytes } from "../contract/tool-value.ts";
import { isValueTooLarge } from "../contract/value-size.ts";
import type { Execution } from "../executors/execution.ts";

/** A result as a `result` hook modified it. */
export type HookOutput = { readonly output: unknown } | { readonly error: ToolError };

/** Converts a hook's output to an Execution. The output is read within the same limits as the tool's own. */
export function toExecution(given: HookOutput, usage: ToolUsage, { outputBytes, jsonValues }: Limits): Execution {
  if ("error" in given) return { usage, error: given.error };
  try {
    const { text, bytes } = toTextWithBytes(given.output, { bytes: outputBytes, values: jsonValues });
    if (text !== undefined)
      return { usage, outputText: text, ...(bytes === undefined ? {} : { outputBytes: () => bytes }) };
  } catch (thrown) {
    if (isValueTooLarge(thrown) && !thrown.isDeep) {
      const message = `A hook returned an output that exceeds limits.${thrown.limit === "bytes" ? "outputBytes" : "jsonValues"}`;
      return { usage, error: new ToolError("OUTPUT_TOO_LARGE", message) };
    }
    // Reported below: the output has no JSON form.
  }
  return { usage, error: new ToolError("OUTPUT_INVALID", "A hook returned an output that is not JSON") };
}

/** Returns the error of a hook for a call that failed before its tool ran. Such a call cannot have an output. */
export const toHookError = (given: HookOutput): ToolError =>
  "error" in given
    ? given.error
    : new ToolError("OUTPUT_INVALID", "A hook returned an output for a call whose tool did not run");
