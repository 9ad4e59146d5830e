// One process, told from any other that may have its number one day.
import { childrenOf, startTimeOf } from "../health/process-meter.ts";

export interface ProcessIdentity {
  readonly pid: number;
  /** As `startTimeOf` tells it. */
  readonly startTime: string;
}

export const isAlive = ({ pid, startTime }: ProcessIdentity): boolean => startTimeOf(pid) === startTime;

/**
 * SIGKILL, for it and what it wraps; whoever has the number now that it is gone is left alone. A wrapper's child asks to die with it only
 * a moment after it was made: so the wrapper is stopped first, and makes no more of them.
 */
export function killProcess(identity: ProcessIdentity): void {
  if (!isAlive(identity)) return;
  const { pid } = identity;
  signal(pid, "SIGSTOP");
  for (const child of childrenOf(pid)) signal(child, "SIGKILL");
  signal(pid, "SIGKILL");
}

function signal(pid: number, name: "SIGSTOP" | "SIGKILL"): void {
  try {
    process.kill(pid, name);
  } catch {
    // It is gone.
  }
}
