// What a process holds in memory, as Linux counts it.
import { readFileSync } from "node:fs";
import { treeOf } from "../../test/support/process-tree.ts";

export interface Memory {
  readonly rssMiB: number;
  /** What is shared with others counts in parts: the sum over all processes is what the machine really holds. */
  readonly pssMiB: number;
}

/** Of one process and all beneath it: a worker may run under a wrapper. Needs the right to read another user's process: root. */
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
