// State of the running call, or of loading the tool: its settings, and how much of its limits it has used. Only one call runs at a time.
import type { InvokeHeader } from "../protocol/guest-messages.ts";

interface CallState {
  /** Number of the call. Code that an earlier call left behind is recognized by its lower number. */
  serial: number;
  /** False between calls. Then logs and timers are ignored, and capability calls are rejected. */
  active: boolean;
  header: InvokeHeader | undefined;
  logBytes: number;
  logLines: number;
  maxCapabilityCalls: number;
  progressReports: number;
  spans: number;
  /** Whether the call has warned about a value that JSON loses. */
  hasWarnedOfLoss: boolean;
}

/** Limits while the tool is loaded. */
const LOAD_LIMITS = { logBytes: 16_384, logLines: 100, timers: 100 } as const;

export const callState: CallState = {
  serial: 0,
  active: true,
  header: undefined,
  logBytes: 0,
  logLines: 0,
  maxCapabilityCalls: 0,
  progressReports: 0,
  spans: 0,
  hasWarnedOfLoss: false,
};

/** Resets the state for a new call. */
export function beginCall(header: InvokeHeader): void {
  callState.serial += 1;
  callState.active = true;
  callState.header = header;
  callState.logBytes = 0;
  callState.logLines = 0;
  callState.maxCapabilityCalls = 0;
  callState.progressReports = 0;
  callState.spans = 0;
  callState.hasWarnedOfLoss = false;
}

/** Returns the number of the call, or 0 while the tool is loaded. */
export const callSerial = (): number => callState.serial;

/** Returns a limit of the running call, or of loading the tool. */
export function allowance(name: "logBytes" | "logLines" | "timers"): number {
  return callState.header?.[name] ?? LOAD_LIMITS[name];
}
