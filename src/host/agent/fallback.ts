// What a user is told where there is no answer: helpful, and nothing of how things work inside.
import type { ErrorCode, ToolErrorData } from "../../sandbox/contract/errors.ts";
import { ignoreOutcome } from "../util/host-callback.ts";
import type { Fallback, FallbackStage } from "./tools-router-options.ts";

const BY_STAGE = {
  routing: "I could not work out how to do that. Please say it in other words, or try again later.",
  answer: "It is done, but I could not put the result into words.",
  none: "None of the tools that I have can do that. Please ask for something else, or say it in other words.",
} as const satisfies Record<Exclude<FallbackStage, "tool">, string>;

/** What the user can do about it. */
const ADVICE: { readonly [code in ErrorCode]?: string } = {
  PARAM_INVALID: "Please say more exactly what you want.",
  OUTPUT_TOO_LARGE: "Please ask for less at a time.",
  MEMORY_LIMIT: "Please ask for less at a time.",
  CPU_LIMIT: "Please ask for less at a time.",
};

/** An error's `userMessage` comes from the one table, and names the tool at most. */
function ofTool({ code, userMessage, recoverable }: ToolErrorData): string {
  const advice = ADVICE[code] ?? (recoverable ? "Please try again later." : "");
  return `${userMessage}. ${advice}`.trim();
}

/** Never throws: a host's own that does is left out. */
export function fallbackText(
  fallback: Fallback | undefined,
  stage: FallbackStage,
  error: ToolErrorData | undefined,
): string {
  try {
    const own: unknown = typeof fallback === "function" ? fallback(stage, error) : fallback;
    if (typeof own === "string") return own;
    // A promise is no text, and its rejection would end the process.
    ignoreOutcome(() => own);
  } catch {
    // As below.
  }
  if (stage !== "tool") return BY_STAGE[stage];
  return error === undefined ? BY_STAGE.routing : ofTool(error);
}
