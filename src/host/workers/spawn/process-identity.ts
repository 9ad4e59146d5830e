// Identifies a process beyond its pid, which the operating system may reuse.
import { childrenOf, startTimeOf } from "../health/process-meter.ts";

export interface ProcessIdentity {
  readonly pid: number;
  /** Value of `startTimeOf`. */
  readonly startTime: string;
}

export const isAlive = ({ pid, startTime }: ProcessIdentity): boolean => startTimeOf(pid) === startTime;

/**
 * Sends SIGKILL to a process and its children. A later process with the same pid is not affected. A wrapper's child
 * only requests to die with its parent shortly after it has started, so the wrapper is stopped first and cannot start
 * further ones.
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
    // The process has ended.
  }
}
