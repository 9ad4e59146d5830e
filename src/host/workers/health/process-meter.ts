// Reads a worker process's state, CPU time and resident memory from the kernel, because values from the worker are not
// trusted.

import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, writeFileSync } from "node:fs";
import { setPriority } from "node:os";

/** One reading of /proc/PID/stat, see proc(5). */
export interface ProcessReading {
  /** Stopped by a signal. It answers nothing until another process continues it. */
  readonly isStopped: boolean;
  /** User and system time of all its threads, in ms. The kernel counts in steps of 10 ms. */
  readonly cpuMs: number;
  readonly rssBytes: number;
}

/** Field indexes after the command's name, counted from 0. proc(5) counts from 1, and two fields come before. */
const STATE = 0;
const USER_TICKS = 11;
const SYSTEM_TICKS = 12;
const START_TICKS = 19;
const RESIDENT_PAGES = 21;
/** sysconf(_SC_CLK_TCK) is 100 on every current Linux. */
const TICK_MS = 10;
/** Page size where the kernel does not report it. */
const DEFAULT_PAGE_BYTES = 4_096;
/** Key of the page size in the auxiliary vector, AT_PAGESZ of getauxval(3). */
const AT_PAGESZ = 6n;
/** Buffer size: a stat line has about 350 bytes. */
const LINE_BYTES = 1_024;

/**
 * Returns the size of a memory page in bytes. Some arm64 kernels have pages of 16 or 64 KiB.
 * @param auxv content of /proc/self/auxv on a 64-bit system: pairs of key and value
 */
export function pageBytesOf(auxv: Uint8Array): number {
  const words = new BigUint64Array(auxv.slice(0, auxv.length - (auxv.length % 8)).buffer);
  for (let index = 0; index + 1 < words.length; index += 2) {
    if (words[index] === AT_PAGESZ) return Number(words[index + 1]);
  }
  return DEFAULT_PAGE_BYTES;
}

function readPageBytes(): number {
  try {
    return pageBytesOf(new Uint8Array(readFileSync("/proc/self/auxv")));
  } catch {
    return DEFAULT_PAGE_BYTES;
  }
}
const PAGE_BYTES = readPageBytes();

/** Niceness of the lowest priority. */
export const LOWEST_PRIORITY = 19;

/** Returns whether this process has a capability, by its number in linux/capability.h. */
function hasCapability(number: bigint): boolean {
  try {
    const mask = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
    return mask !== undefined && ((BigInt(`0x${mask}`) >> number) & 1n) === 1n;
  } catch {
    return false;
  }
}

/** CAP_SYS_NICE. Without it, a lowered priority cannot be raised again. */
const CAP_SYS_NICE = 23n;
export const CAN_RAISE_PRIORITY: boolean = hasCapability(CAP_SYS_NICE);

/** Returns the fields after the name. The name is in parentheses and may contain spaces and parentheses. */
const fieldsOf = (line: string): readonly string[] => line.slice(line.lastIndexOf(")") + 2).split(" ");

/**
 * Returns the start time of a process in ticks since boot; pid and start time identify a process uniquely. Undefined if
 * it has ended.
 */
export function startTimeOf(pid: number): string | undefined {
  try {
    return fieldsOf(readFileSync(`/proc/${pid}/stat`, "latin1"))[START_TICKS];
  } catch {
    return undefined;
  }
}

/** Returns the running children of a process's first thread; empty where the kernel does not report them. */
export function childrenOf(pid: number): readonly number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/**
 * Returns the process that runs the worker: follows the chain of wrappers (bwrap, unshare), each with a single child.
 */
export function innermostProcess(pid: number): number {
  const [child, second] = childrenOf(pid);
  return child === undefined || second !== undefined ? pid : innermostProcess(child);
}

/** Sets one thread's niceness. The right to do so is known to be there. */
function setPriorityOfThread(thread: number, niceness: number): void {
  try {
    setPriority(thread, niceness);
  } catch {
    // The thread has ended.
  }
}

/**
 * Reads one process. Readings are undefined without /proc or if the process has ended. Dispose it to close its
 * descriptor.
 */
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
      // The open descriptor keeps referring to this process, even if its pid is reused later.
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

  /**
   * Returns how long in ms the first thread of the process has waited for a core so far: 0 where the kernel does not
   * report it, see proc_pid_schedstat(5).
   */
  get waitedMs(): number {
    try {
      const [, waitedNs] = readFileSync(`/proc/${this.pid}/task/${this.pid}/schedstat`, "latin1").split(" ");
      return Number(waitedNs ?? 0) / 1e6;
    } catch {
      return 0;
    }
  }

  get niceness(): number {
    return this.#niceness;
  }

  /** Records a value that another program has set. */
  set niceness(niceness: number) {
    this.#niceness = niceness;
  }

  /**
   * Sets the niceness of every thread. Linux keeps one value for each thread, and new threads inherit it. Returns false
   * if it may not be lowered, which only root may do.
   */
  setNiceness(niceness: number): boolean {
    if (niceness === this.#niceness) return true;
    // Leaving SCHED_IDLE requires the same right.
    if (this.#niceness === LOWEST_PRIORITY && !CAN_RAISE_PRIORITY) return false;
    try {
      setPriority(this.pid, niceness);
      this.#niceness = niceness;
      if (process.platform !== "linux") return true;
      for (const thread of readdirSync(`/proc/${this.pid}/task`)) setPriorityOfThread(Number(thread), niceness);
      // Where sessions are scheduled as groups (sched(7), autogroup), niceness applies only within a group.
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
