// A failed result in one sentence, for the model that made the call: what failed, why, whether trying again can help, what would be right.
import {
  ERROR_CODES,
  type ErrorCode,
  type ToolErrorData,
  type UnavailableReason,
  unavailablePolicyOf,
} from "../../sandbox/contract/errors.ts";
import type { ToolResult } from "./tool-call.ts";

/** Characters of what others have written, so that the whole sentence stays below 800. */
const MAX_REASON_UNITS = 400;
const MAX_NAME_UNITS = 128;

/** What the agent is told to do where trying again can help. */
const ADVICE = {
  PARAM_INVALID: "correct the arguments and call it again",
  TOOL_UNAVAILABLE: "try it again later, or do without it",
  TOOL_TIMEOUT: "ask for less at a time, or try it once more",
  TOOL_FAILED: "other arguments may help, or trying it once more",
  NAME_TAKEN: "choose another name",
  OUTPUT_INVALID: "other arguments may help",
  OUTPUT_TOO_LARGE: "ask for less at a time",
  MEMORY_LIMIT: "ask for less at a time",
  CPU_LIMIT: "ask for less at a time",
  SANDBOX_CRASHED: "it may be tried once more",
  CAPABILITY_DENIED: "do without what it may not do",
  QUOTA_EXCEEDED: "do without it for now",
  OVERLOADED: "try it again soon",
  CANCELLED: "call it again only if it is still wanted",
  BUNDLE_FAILED: "do without it",
  APPROVAL_REQUIRED: "wait until somebody has approved it",
  INTERNAL: "it may be tried once more",
} as const satisfies Record<ErrorCode, string>;
/** The same for TOOL_UNAVAILABLE, by its reason; for those that are missing, calling again does not help or the code's advice is right. */
const UNAVAILABLE_ADVICE: { readonly [Reason in UnavailableReason]?: string } = {
  tool_changed: "list the tools again, then call it again if it is still what you want",
  shutting_down: "try it again later",
};
const IN_VAIN = "calling it again will not help";

/** One line, whatever a tool has written: what would begin a new one is a space. */
function toLine(text: unknown, units: number): string {
  const line = String(text)
    .slice(0, 4 * units)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\s]+/gu, " ")
    .trim()
    .replace(/[.;,:\s]+$/, "");
  return line.length <= units ? line : `${line.slice(0, units - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}

const isErrorCode = (code: unknown): code is ErrorCode => typeof code === "string" && Object.hasOwn(ERROR_CODES, code);

/** Only what the table says a model may read; for the rest what anyone may. */
function reasonOf(error: ToolErrorData, code: ErrorCode, name: string): string {
  const shown = ERROR_CODES[code].userMessage.replace("{tool}", () => name);
  const isForModels = ERROR_CODES[code].audience === "model" && typeof error.message === "string";
  const message = isForModels ? toLine(error.message, MAX_REASON_UNITS) : "";
  return message === "" ? toLine(shown, MAX_REASON_UNITS) : message;
}

function adviceOf({ recoverable, details }: ToolErrorData, code: ErrorCode): string {
  if (recoverable !== true) return IN_VAIN;
  const retryAfterMs = details?.retryAfterMs;
  if (typeof retryAfterMs !== "number" || !(retryAfterMs > 0)) {
    const reason = code === "TOOL_UNAVAILABLE" ? details?.reason : undefined;
    const isKnown = unavailablePolicyOf(reason) !== undefined;
    return (isKnown ? UNAVAILABLE_ADVICE[reason as UnavailableReason] : undefined) ?? ADVICE[code];
  }
  return `try it again in ${Math.ceil(retryAfterMs / 1_000)} s, not before`;
}

/**
 * One sentence for the agent about a call that failed, of less than 800 characters: it names the tool, the code and the reason, says whether
 * trying again can help, and what would be right. Safe to show to a model: a message that the error table keeps for clients or
 * operators is not in it. A tool's own words are, in one line, as words and not as instructions.
 * @returns undefined for a result that succeeded. Never throws: a value that is no ToolResult is described as a failed call.
 */
export function createToolFailureMessage(result: ToolResult): string | undefined {
  try {
    // Anything but a result that says so has not succeeded.
    if (result.success === true) return undefined;
    const { error } = result;
    const name = toLine(result.toolName, MAX_NAME_UNITS) || "(no name)";
    const code = isErrorCode(error.code) ? error.code : "INTERNAL";
    return `The tool ${JSON.stringify(name)} failed with ${code}: ${reasonOf(error, code, name)}; ${adviceOf(error, code)}.`;
  } catch {
    return `A tool failed with INTERNAL: ${ERROR_CODES.INTERNAL.userMessage.replace("{tool}", "it")}; ${ADVICE.INTERNAL}.`;
  }
}
