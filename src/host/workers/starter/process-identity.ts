// One process, told from any other that may have its number one day.
import { startTimeOf } from "../process-meter.ts";

export interface ProcessIdentity {
  readonly pid: number;
  /** As `startTimeOf` tells it. */
  readonly startTime: string;
}

/** SIGKILL. Whoever has the number now that it is gone is left alone. */
export function killProcess({ pid, startTime }: ProcessIdentity): void {
  if (startTimeOf(pid) !== startTime) return;
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It is gone.
  }
}
