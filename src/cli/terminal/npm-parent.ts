// Notices that npm is gone which has started this command. `npx` runs a command in a shell; a signal to npm ends npm and the shell, and does not
// reach the command.
import { readFileSync } from "node:fs";

const POLL_MS = 1_000;

/** Returns the parent of a process; undefined if it is gone, or on a system without `/proc`. */
function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name of the program, in parentheses, can contain anything.
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    return undefined;
  }
}

/** Processes from which a command of `npx` descends: the shell, and npm. */
const ancestorsOf = ({ ppid }: NodeJS.Process): string => JSON.stringify([ppid, parentOf(ppid)]);

/** Calls back once, when npm or its shell has ended. Does nothing for a command that `npx` has not started. */
export function onNpmEnded(process: NodeJS.Process, notify: () => void): void {
  // In a script of package.json, a command may stay behind on purpose: `glovebox serve &`.
  if (process.env.npm_lifecycle_event !== "npx") return;
  const before = ancestorsOf(process);
  const timer = setInterval(() => {
    if (ancestorsOf(process) === before) return;
    clearInterval(timer);
    notify();
  }, POLL_MS);
  timer.unref();
}
