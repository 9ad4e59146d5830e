// Measures the memory of a process as Linux counts it.
import { readFileSync } from "node:fs";
import { treeOf } from "../../test/support/process-tree.ts";

export interface Memory {
  readonly rssMiB: number;
  /** Shared memory counts proportionally, so that the sum over all processes is the real usage. */
  readonly pssMiB: number;
}

/** Measures a process and all below it, because a worker may run under a wrapper. Reading another user's process requires root. */
export function memoryOf(pid: number): Memory {
  let rssMiB = 0;
  let pssMiB = 0;
  for (const one of treeOf(pid)) {
    const text = readFileSync(`/proc/${one}/smaps_rollup`, "utf8");
    rssMiB += kibOf(text, "Rss") / 1024;
    pssMiB += kibOf(text, "Pss") / 1024;
  }
  return { rssMiB, pssMiB };
}

const kibOf = (text: string, field: string): number =>
  Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(text)?.[1]);
