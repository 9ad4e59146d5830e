// Sets SCHED_IDLE for a running process. Any other thread that wakes up preempts it at once; at normal policy a thread
// of any niceness would first finish its slice of some milliseconds (sched(7)). Only the program chrt can set it;
// without chrt, niceness is used instead.
import { execFile } from "node:child_process";

/** Policy for every thread of a process. */
export interface IdlePolicy {
  /** Absolute path of the program. */
  readonly chrt: string;
  readonly pid: number;
  readonly isIdle: boolean;
}

/** Changes run one after another, so that the latest one takes effect last. */
let lastChange: Promise<void> = Promise.resolve();

export function setIdlePolicy({ chrt, pid, isIdle }: IdlePolicy): void {
  const args = ["--all-tasks", isIdle ? "--idle" : "--other", "--pid", "0", String(pid)];
  lastChange = lastChange
    .then(() => new Promise<void>((resolve) => void execFile(chrt, args, { env: {} }, () => resolve())))
    // If the machine cannot start a program, the policy stays as it is.
    .catch(() => {});
}
