// What one entry into the guest (loading, or one call) has used of its allowances. Reset when a call begins; one at a time.
import type { InvokeHeader } from "../protocol/guest-messages.ts";

interface CallState {
  /** Which call this is, counted up: what an earlier one left behind is told apart from this one's. */
  serial: number;
  /** False between calls: then logs are dropped, timers and capability calls refused. */
  active: boolean;
  header: InvokeHeader | undefined;
  logBytes: number;
  logLines: number;
  hostCalls: number;
  progressReports: number;
}

/** Before a call, while the bundle loads, a tool may log this much and no more. */
const LOAD_ALLOWANCE = { logBytes: 16_384, logLines: 100, timers: 100 } as const;

export const callState: CallState = {
  serial: 0,
  active: true,
  header: undefined,
  logBytes: 0,
  logLines: 0,
  hostCalls: 0,
  progressReports: 0,
};

export function beginCall(header: InvokeHeader): void {
  callState.serial += 1;
  callState.active = true;
  callState.header = header;
  callState.logBytes = 0;
  callState.logLines = 0;
  callState.hostCalls = 0;
  callState.progressReports = 0;
}

/** Which call this is; 0 while the tool is loaded. */
export const callSerial = (): number => callState.serial;

export function allowance(name: "logBytes" | "logLines" | "timers"): number {
  return callState.header?.[name] ?? LOAD_ALLOWANCE[name];
}
