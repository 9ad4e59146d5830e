// Why a worker process ended: by the host, by a fault of the code in it, or by a signal from elsewhere.
import type { Ending } from "../spawn/spawn-command.ts";
import type { HealthFailure } from "./process-monitor.ts";

/**
 * Why the host ended a process that had calls or, for `room`, sessions in it.
 * - `stuck`: a call did not stop after its end
 * - `output-unread`: it does not read what the host sends
 * - `protocol-violation`: it sent a message that no correct worker sends
 * - `budget`: the memory of all processes exceeded `workers.memoryMiB`
 * - `room`: another owner needed the process
 * - `interrupted`: a call that ran on its main thread, or that was inspected, ends only with it
 */
export type EndReason =
  | HealthFailure
  | "stuck"
  | "output-unread"
  | "protocol-violation"
  | "budget"
  | "room"
  | "interrupted";

/** Reasons that are the fault of the code in the process. Others can also result from a signal of another program. */
export const FAULT_REASONS: ReadonlySet<EndReason> = new Set([
  "memory",
  "stuck",
  "hung",
  "output-unread",
  "idle-cpu",
  "protocol-violation",
]);

/** Final messages of V8 and Node.js. Guests cannot write to stderr. */
export const OUT_OF_MEMORY = /JavaScript (?:heap )?out of memory|Fatal process out of memory|Allocation failed/i;

/** Signals by which a program ends after a fatal error of its own. */
const CRASH_SIGNALS: ReadonlyMap<string, number> = new Map([
  ["SIGILL", 4],
  ["SIGTRAP", 5],
  ["SIGABRT", 6],
  ["SIGBUS", 7],
  ["SIGSEGV", 11],
]);

/** Returns whether a process crashed. Like a shell, a wrapper reports its child's signal as an exit code. */
export function isCrash(ending: Ending | undefined): boolean {
  if (ending === undefined) return false;
  if (ending.signal !== null) return CRASH_SIGNALS.has(ending.signal);
  return [...CRASH_SIGNALS.values()].some((number) => ending.code === 128 + number);
}
