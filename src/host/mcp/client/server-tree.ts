// Ends all that a server's program has started, however it was started.
import { readdirSync, statSync } from "node:fs";
import { childrenOf, startTimeOf } from "../../workers/health/process-meter.ts";
import { killProcess } from "../../workers/spawn/process-identity.ts";

export interface ServerTree {
  /** Of the outermost process, which leads a group. */
  readonly pid: number;
  /** Nobody else's, where it is known. */
  readonly uid: number | undefined;
  /** Whether all of it dies with the first process in it. */
  readonly isNamespace: boolean;
}

function signal(pid: number, name: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(pid, name);
  } catch {
    // It is gone.
  }
}

/** Below it, the nearest first. */
function descendantsOf(pid: number): readonly number[] {
  const found = [pid];
  for (let index = 0; index < found.length; index += 1) found.push(...childrenOf(found[index] ?? 0));
  return found.slice(1);
}

function processesOf(uid: number): readonly number[] {
  try {
    const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
    return pids.filter((pid) => statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid === uid).map(Number);
  } catch {
    return [];
  }
}

/** Asks all of it to end. The wrapper of a namespace is left alone: with it all would end at once. */
export function terminateTree({ pid, isNamespace }: ServerTree): void {
  const below = descendantsOf(pid);
  if (!isNamespace) signal(-pid, "SIGTERM");
  for (const each of below) signal(each, "SIGTERM");
}

/** Ends all of it, at once. What is left when the first process has ended, too. */
export function killTree({ pid, uid, isNamespace }: ServerTree, hasEnded: boolean): void {
  const startTime = hasEnded ? undefined : startTimeOf(pid);
  const below = hasEnded ? [] : descendantsOf(pid);
  if (startTime !== undefined) killProcess({ pid, startTime });
  else if (!hasEnded) signal(pid, "SIGKILL");
  if (isNamespace) return;
  signal(-pid, "SIGKILL");
  for (const each of below) signal(each, "SIGKILL");
  if (uid !== undefined) for (const each of processesOf(uid)) signal(each, "SIGKILL");
}
