// What the kernel says of a worker process: its state, its CPU time, its resident memory. Never the worker's own word.

import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, writeFileSync } from "node:fs";
import { setPriority } from "node:os";

/** One reading of /proc/PID/stat, see proc(5). */
export interface ProcessReading {
  /** Stopped by a signal: it answers nothing until somebody continues it. */
  readonly isStopped: boolean;
  /** User and system time of all its threads, in ms; the kernel counts in steps of 10. */
  readonly cpuMs: number;
  readonly rssBytes: number;
}

/** Fields after the command's name, counted from 0; proc(5) counts from 1 and two come before. */
const STATE = 0;
const USER_TICKS = 11;
const SYSTEM_TICKS = 12;
const START_TICKS = 19;
const RESIDENT_PAGES = 21;
/** sysconf(_SC_CLK_TCK) is 100 on every Linux of today. */
const TICK_MS = 10;
/** Also on arm64 distributions with 4 KiB pages, which is what Node is built for; with larger ones memory reads low. */
const PAGE_BYTES = 4_096;
/** A stat line is some 350 bytes. */
const LINE_BYTES = 1_024;

/** Niceness of those that go last. */
export const LAST_NICENESS = 19;

/** Whether this process has a capability, by its number in linux/capability.h. */
function holdsCapability(number: bigint): boolean {
  try {
    const mask = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
    return mask !== undefined && ((BigInt(`0x${mask}`) >> number) & 1n) === 1n;
  } catch {
    return false;
  }
}

/** CAP_SYS_NICE: without it a priority that was lowered stays low. */
const CAP_SYS_NICE = 23n;
export const MAY_RAISE: boolean = holdsCapability(CAP_SYS_NICE);

/** The fields after the name, which is in parentheses and may hold spaces and parentheses. */
const fieldsOf = (line: string): readonly string[] => line.slice(line.lastIndexOf(")") + 2).split(" ");

/** When a process was started, in ticks since the machine was: with its number it names one process only. Undefined where it is gone. */
export function startTimeOf(pid: number): string | undefined {
  try {
    return fieldsOf(readFileSync(`/proc/${pid}/stat`, "latin1"))[START_TICKS];
  } catch {
    return undefined;
  }
}

/** Those that its first thread has started and that still run; none where that cannot be seen. */
export function childrenOf(pid: number): readonly number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** The process that runs the worker: a wrapper (bwrap, unshare) is the parent of the next until there is no further one. */
export function innermostProcess(pid: number): number {
  const [child, second] = childrenOf(pid);
  return child === undefined || second !== undefined ? pid : innermostProcess(child);
}

/** Its process has it already, so the right is there. */
function setPriorityOfThread(thread: number, niceness: number): void {
  try {
    setPriority(thread, niceness);
  } catch {
    // It has ended.
  }
}

/** Reads one process; undefined readings where there is no /proc or the process is gone. Dispose it to give the descriptor back. */
export class ProcessMeter implements Disposable {
  readonly pid: number;
  readonly #line = Buffer.alloc(LINE_BYTES);
  #descriptor: number | undefined;
  #niceness: number;

  constructor(pid: number, niceness = 0) {
    this.pid = pid;
    this.#niceness = niceness;
    if (process.platform !== "linux") return;
    try {
      // Kept open: the descriptor is of this very process, also when its number is another's one day.
      this.#descriptor = openSync(`/proc/${pid}/stat`, "r");
    } catch {
      this.#descriptor = undefined;
    }
  }

  read(): ProcessReading | undefined {
    if (this.#descriptor === undefined) return undefined;
    try {
      const length = readSync(this.#descriptor, this.#line, 0, LINE_BYTES, 0);
      const fields = fieldsOf(this.#line.toString("latin1", 0, length));
      return {
        isStopped: fields[STATE] === "T" || fields[STATE] === "t",
        cpuMs: (Number(fields[USER_TICKS]) + Number(fields[SYSTEM_TICKS])) * TICK_MS,
        rssBytes: Number(fields[RESIDENT_PAGES]) * PAGE_BYTES,
      };
    } catch {
      return undefined;
    }
  }

  get niceness(): number {
    return this.#niceness;
  }

  /** Somebody else has set it. */
  set niceness(niceness: number) {
    this.#niceness = niceness;
  }

  /**
   * Sets the niceness of every thread (Linux keeps one for each; new ones inherit their maker's). False when it may not be
   * lowered: only root may.
   */
  setNiceness(niceness: number): boolean {
    if (niceness === this.#niceness) return true;
    // Nor is SCHED_IDLE left without the right to.
    if (this.#niceness === LAST_NICENESS && !MAY_RAISE) return false;
    try {
      setPriority(this.pid, niceness);
      this.#niceness = niceness;
      if (process.platform !== "linux") return true;
      for (const thread of readdirSync(`/proc/${this.pid}/task`)) setPriorityOfThread(Number(thread), niceness);
      // Where sessions are scheduled as groups (sched(7), autogroup), a thread's niceness counts only within its own.
      if (existsSync(`/proc/${this.pid}/autogroup`)) writeFileSync(`/proc/${this.pid}/autogroup`, String(niceness));
      return true;
    } catch {
      // The right is missing, or the process has ended.
      return this.#niceness === niceness;
    }
  }

  [Symbol.dispose](): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }
}
