// Writes the guest's log lines with their level. Limits per call are enforced here and again in the worker and on the host.
import { toolPlace } from "./call-site.ts";
import { allowance, callState } from "./call-state.ts";
import { capText } from "./error-text.ts";
import { post } from "./host.ts";
import { MathMin } from "./primordials.ts";

export type Level = "debug" | "info" | "warn" | "error";

/** Longest line in UTF-16 code units. The call's `logBytes` may be lower. */
export const LINE_UNITS = 32_768;

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
  const line = capText(make(), MathMin(left, LINE_UNITS));
  callState.logBytes += line.length;
  if (callState.header?.logPlaces) post("log", level, line, toolPlace());
  else post("log", level, line);
}

export function writeLog(level: Level, text: string): void {
  writeLazily(level, () => text);
}
