// SCHED_IDLE for a process that runs already: whoever wakes up passes it at once, where a thread of any niceness would first finish
// its slice of some milliseconds (sched(7)). Only a program can set it; without one niceness has to do.
import { execFile } from "node:child_process";

/** For every thread of a process. */
export interface IdlePolicy {
  /** The program, by absolute path. */
  readonly chrt: string;
  readonly pid: number;
  readonly isIdle: boolean;
}

/** One after the other: the last to be set is the one that holds. */
let settled: Promise<void> = Promise.resolve();

export function setIdlePolicy({ chrt, pid, isIdle }: IdlePolicy): void {
  const args = ["--all-tasks", isIdle ? "--idle" : "--other", "--pid", "0", String(pid)];
  settled = settled
    .then(() => new Promise<void>((resolve) => void execFile(chrt, args, { env: {} }, () => resolve())))
    // A machine without room for a program goes without.
    .catch(() => {});
}
