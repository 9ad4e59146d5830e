// Ends all processes that a server's program has started.
import { childrenOf, startTimeOf } from "../../workers/health/process-meter.ts";
import { killProcess } from "../../workers/spawn/process-identity.ts";
import { ownersOfProcesses } from "./server-users.ts";

export interface ServerTree {
  /** Id of the outermost process, which leads a process group. */
  readonly pid: number;
  /** User id that only this server's processes have; undefined if they run as the host's user. */
  readonly uid: number | undefined;
  /** Whether the processes are in a PID namespace, and so die with its first process. */
  readonly isNamespace: boolean;
}

function signal(pid: number, name: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(pid, name);
  } catch {
    // The process has already ended.
  }
}

/** Returns the ids of all descendants of a process, the nearest first. */
function descendantsOf(pid: number): readonly number[] {
  const found = [pid];
  for (let index = 0; index < found.length; index += 1) found.push(...childrenOf(found[index] ?? 0));
  return found.slice(1);
}

function processesOf(uid: number): readonly number[] {
  try {
    return [...ownersOfProcesses()].filter(([, owner]) => owner === uid).map(([pid]) => pid);
  } catch {
    return [];
  }
}

/** Sends SIGTERM to all processes, except for the wrapper of a namespace: its end would kill the others at once. */
export function terminateTree({ pid, isNamespace }: ServerTree): void {
  const descendants = descendantsOf(pid);
  if (!isNamespace) signal(-pid, "SIGTERM");
  for (const descendant of descendants) signal(descendant, "SIGTERM");
}

/** Kills all processes. @param hasEnded whether the outermost process has already ended; orphans are killed too */
export function killTree({ pid, uid, isNamespace }: ServerTree, hasEnded: boolean): void {
  const startTime = hasEnded ? undefined : startTimeOf(pid);
  const descendants = hasEnded ? [] : descendantsOf(pid);
  if (startTime !== undefined) killProcess({ pid, startTime });
  else if (!hasEnded) signal(pid, "SIGKILL");
  if (isNamespace) return;
  signal(-pid, "SIGKILL");
  for (const descendant of descendants) signal(descendant, "SIGKILL");
  if (uid !== undefined) for (const owned of processesOf(uid)) signal(owned, "SIGKILL");
}
