// The text for the user when the model gives no answer. It is helpful and discloses no internals.
import type { ErrorCode, ToolErrorData } from "../../sandbox/contract/errors.ts";
import { ignoreOutcome } from "../util/host-callback.ts";
import type { Fallback, FallbackStage } from "./router/tools-router-options.ts";

const BY_STAGE = {
  routing: "I could not work out how to do that. Please rephrase your request, or try again later.",
  answer: "It is done, but I could not describe the result.",
  none: "None of my tools can do that. Please rephrase your request, or request something else.",
} as const satisfies Record<Exclude<FallbackStage, "tool">, string>;

/** Advice to the user, by error code. */
const ADVICE: { readonly [code in ErrorCode]?: string } = {
  PARAM_INVALID: "Please describe more precisely what you want.",
  OUTPUT_TOO_LARGE: "Please ask for less at a time.",
  MEMORY_LIMIT: "Please ask for less at a time.",
  CPU_LIMIT: "Please ask for less at a time.",
};

/** Uses an error's `userMessage`, which comes from a fixed table and contains at most the tool's name. */
function toToolFallback({ code, userMessage, recoverable }: ToolErrorData): string {
  const advice = ADVICE[code] ?? (recoverable ? "Please try again later." : "");
  return `${userMessage}. ${advice}`.trim();
}

/** Returns the fallback text. Never throws: if the host's function fails, the default text is used. */
export function fallbackText(
  fallback: Fallback | undefined,
  stage: FallbackStage,
  error: ToolErrorData | undefined,
): string {
  try {
    const text: unknown = typeof fallback === "function" ? fallback(stage, error) : fallback;
    if (typeof text === "string") return text;
    // A promise is not text, and its unhandled rejection would end the process.
    ignoreOutcome(() => text);
  } catch {
    // Use the default text below.
  }
  if (stage !== "tool") return BY_STAGE[stage];
  return error === undefined ? BY_STAGE.routing : toToolFallback(error);
}
