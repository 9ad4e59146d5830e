// Lines of the guest's log: captured with their level, capped per call here and again outside.
import { toolPlace } from "./call-site.ts";
import { allowance, callState } from "./call-state.ts";
import { capText } from "./error-text.ts";
import { post } from "./host.ts";
import { MathMin } from "./primordials.ts";

export type Level = "debug" | "info" | "warn" | "error";

/** One line's cap, in UTF-16 units; the call's `logBytes` may be lower. */
export const LINE_UNITS = 32_768;

/** @param make the text, asked for only if there is room for it */
export function writeLazily(level: Level, make: () => string): void {
  if (!callState.active) return;
  callState.logLines += 1;
  const left = allowance("logBytes") - callState.logBytes;
  // Past a cap the line goes out empty, so that the worker counts what was dropped; past ten times the cap nothing does.
  if (callState.logLines > allowance("logLines") || left <= 0) {
    if (callState.logLines <= allowance("logLines") * 10) post("log", "dropped", "");
    return;
  }
  const capped = capText(make(), MathMin(left, LINE_UNITS));
  callState.logBytes += capped.length;
  if (callState.header?.logPlaces) post("log", level, capped, toolPlace());
  else post("log", level, capped);
}

export function writeLog(level: Level, text: string): void {
  writeLazily(level, () => text);
}
