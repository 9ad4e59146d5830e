// Describes a failed result in one sentence for the model that made the call: what failed, why, and whether to try again.
import {
  ERROR_CODES,
  type ErrorCode,
  type ToolErrorData,
  type UnavailableReason,
  unavailablePolicyOf,
} from "../../sandbox/contract/errors.ts";
import type { ToolResult } from "./tool-call.ts";

/** Maximum length of quoted third-party text, so that the whole sentence stays below 800 characters. */
const MAX_REASON_LENGTH = 400;
const MAX_NAME_LENGTH = 128;

/** Advice to the agent for failures that a new attempt can solve. */
const ADVICE = {
  PARAM_INVALID: "correct the arguments and call it again",
  TOOL_UNAVAILABLE: "try it again later, or continue without it",
  TOOL_TIMEOUT: "ask for less at a time, or try it once more",
  TOOL_FAILED: "try other arguments, or try it once more",
  NAME_TAKEN: "choose another name",
  OUTPUT_INVALID: "try other arguments",
  OUTPUT_TOO_LARGE: "ask for less at a time",
  MEMORY_LIMIT: "ask for less at a time",
  CPU_LIMIT: "ask for less at a time",
  SANDBOX_CRASHED: "try it once more",
  CAPABILITY_DENIED: "continue without the operation that was denied",
  QUOTA_EXCEEDED: "continue without it for now",
  OVERLOADED: "try it again soon",
  CANCELLED: "call it again only if you still need the result",
  BUNDLE_FAILED: "continue without it",
  APPROVAL_REQUIRED: "wait until the call is approved",
  REPLAY_DIVERGED: "record the call again",
  INTERNAL: "try it once more",
} as const satisfies Record<ErrorCode, string>;
/** Advice for TOOL_UNAVAILABLE by reason. For other reasons, the advice of the code applies or calling again does not help. */
const UNAVAILABLE_ADVICE: { readonly [Reason in UnavailableReason]?: string } = {
  tool_changed: "list the tools again, and call it again if it still fits",
  shutting_down: "try it again later",
};
const NOT_RECOVERABLE = "calling it again will not help";

/** Returns the text on one line, truncated to `maxLength`. Line breaks and control characters become spaces. */
function toLine(text: unknown, maxLength: number): string {
  const line = String(text)
    .slice(0, 4 * maxLength)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\s]+/gu, " ")
    .trim()
    .replace(/[.;,:\s]+$/, "");
  return line.length <= maxLength ? line : `${line.slice(0, maxLength - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}

const isErrorCode = (code: unknown): code is ErrorCode => typeof code === "string" && Object.hasOwn(ERROR_CODES, code);

/** Returns the message if the error table allows models to read it, otherwise the code's general message. */
function reasonOf(error: ToolErrorData, code: ErrorCode, name: string): string {
  const shown = ERROR_CODES[code].userMessage.replace("{tool}", () => name);
  const isForModels = ERROR_CODES[code].audience === "model" && typeof error.message === "string";
  const message = isForModels ? toLine(error.message, MAX_REASON_LENGTH) : "";
  return message === "" ? toLine(shown, MAX_REASON_LENGTH) : message;
}

function adviceOf({ recoverable, details }: ToolErrorData, code: ErrorCode): string {
  if (recoverable !== true) return NOT_RECOVERABLE;
  const retryAfterMs = details?.retryAfterMs;
  if (typeof retryAfterMs !== "number" || !(retryAfterMs > 0)) {
    const reason = code === "TOOL_UNAVAILABLE" ? details?.reason : undefined;
    const isKnown = unavailablePolicyOf(reason) !== undefined;
    return (isKnown ? UNAVAILABLE_ADVICE[reason as UnavailableReason] : undefined) ?? ADVICE[code];
  }
  return `try it again in ${Math.ceil(retryAfterMs / 1_000)} s, not before`;
}

/**
 * Returns one sentence of less than 800 characters about a failed call, for an agent: the tool, the code, the reason, and whether to try
 * again. It is safe to show to a model: messages that the error table keeps for clients or operators are left out, and a tool's own text
 * is quoted on one line.
 * @returns undefined for a successful result. Never throws: a value that is not a ToolResult is described as a failed call.
 * @example
 * ```typescript
 * import { createGlovebox, createToolFailureMessage } from "glovebox";
 *
 * await using glovebox = await createGlovebox();
 * const result = await glovebox.execute({ id: "c1", toolName: "missing", arguments: {} });
 * const content = result.success ? JSON.stringify(result.output) : createToolFailureMessage(result);
 * ```
 */
export function createToolFailureMessage(result: ToolResult): string | undefined {
  try {
    // Any other value of `success` counts as a failure.
    if (result.success === true) return undefined;
    const { error } = result;
    const name = toLine(result.toolName, MAX_NAME_LENGTH) || "(no name)";
    const code = isErrorCode(error.code) ? error.code : "INTERNAL";
    return `The tool ${JSON.stringify(name)} failed with ${code}: ${reasonOf(error, code, name)}; ${adviceOf(error, code)}.`;
  } catch {
    return `A tool failed with INTERNAL: ${ERROR_CODES.INTERNAL.userMessage.replace("{tool}", "it")}; ${ADVICE.INTERNAL}.`;
  }
}
