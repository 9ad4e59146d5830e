// Reads the process tree below a process from /proc. A worker may run under a wrapper (bwrap, unshare), so descendants count, not children.
// Imports no test framework, because benchmarks use it too.
import { readdirSync, readFileSync } from "node:fs";

/** Bytes of a page of memory: /proc counts resident memory in pages. */
const PAGE_BYTES = 4_096;

export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  /** Resident bytes; pages shared with others are counted in each. */
  readonly residentBytes: number;
  readonly threads: number;
}

/** Undefined for a process that is gone, or a zombie: that one only waits to be counted. */
export function readProcess(pid: number): ProcessEntry | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name, in parentheses, may hold spaces.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const [state = "", parent = "0"] = fields;
    if (state === "Z" || state === "X") return undefined;
    return { pid, parent: Number(parent), threads: Number(fields[17]), residentBytes: Number(fields[21]) * PAGE_BYTES };
  } catch {
    return undefined;
  }
}

/** Everything that lives beneath a process, whatever is between. */
export function descendantsOf(root: number): readonly ProcessEntry[] {
  const pids = readdirSync("/proc").map(Number).filter(Number.isInteger);
  const entries = pids.flatMap((pid) => readProcess(pid) ?? []);
  const found: ProcessEntry[] = [];
  let parents = new Set([root]);
  while (parents.size > 0) {
    const level = entries.filter(({ parent }) => parents.has(parent));
    found.push(...level);
    parents = new Set(level.map(({ pid }) => pid));
  }
  return found;
}

/** A process and all beneath it. */
export const treeOf = (pid: number): readonly number[] => [pid, ...descendantsOf(pid).map((entry) => entry.pid)];

/** The words that a process was started with; empty when it is gone. */
export function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
  } catch {
    return "";
  }
}

/** Sends a signal; false when the process was gone already. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}
