// Writes the guest's log lines with their level. Limits per call are enforced here and again in the worker and on the host.

import { allowance, callState } from "./call-state.ts";
import { truncateText } from "./error-text.ts";
import { post } from "./host.ts";
import { MathMin } from "./primordials.ts";
import { toolPlace } from "./source-location.ts";

export type Level = "debug" | "info" | "warn" | "error";

/** Longest line in UTF-16 code units. The call's `logBytes` may be lower. */
export const MAX_LINE_LENGTH = 32_768;

/**
 * Writes a log line within the limits of the call.
 * @param make creates the text; only called if the limits allow the line
 */
export function writeLazily(level: Level, make: () => string): void {
  if (!callState.active) return;
  callState.logLines += 1;
  const left = allowance("logBytes") - callState.logBytes;
  // Beyond the limits an empty line is sent, so that the worker can count dropped lines. Beyond ten times the limit nothing is sent.
  if (callState.logLines > allowance("logLines") || left <= 0) {
    if (callState.logLines <= allowance("logLines") * 10) post("log", "dropped", "");
    return;
  }
  const line = truncateText(make(), MathMin(left, MAX_LINE_LENGTH));
  callState.logBytes += line.length;
  if (callState.header?.logSourceLocations) post("log", level, line, toolPlace());
  else post("log", level, line);
}

export function writeLog(level: Level, text: string): void {
  writeLazily(level, () => text);
}
