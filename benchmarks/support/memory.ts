// Measures the memory of a process as Linux counts it.
import { readFileSync } from "node:fs";
import { treeOf } from "../../test/support/process-tree.ts";

export interface Memory {
  readonly rssMiB: number;
  /** Shared memory counts proportionally, so that the sum over all processes is the real usage. */
  readonly pssMiB: number;
}

/** Measures a process and all below it, because a worker may run under a wrapper. Reading another user's process requires root. */
export const memoryOf = (pid: number): Memory => sumOf(treeOf(pid));

/** Measures a process without those below it. */
export const ownMemoryOf = (pid: number): Memory => sumOf([pid]);

function sumOf(pids: readonly number[]): Memory {
  let rssMiB = 0;
  let pssMiB = 0;
  for (const pid of pids) {
    const text = rollupOf(pid);
    rssMiB += kibOf(text, "Rss") / 1024;
    pssMiB += kibOf(text, "Pss") / 1024;
  }
  return { rssMiB, pssMiB };
}

/**
 * Returns the memory in MiB that a process and all below it would take on a machine where no other process shares a page with
 * them: what is private to each, and the largest shared part once.
 */
export function aloneMiB(pid: number): number {
  const parts = treeOf(pid).map((one) => {
    const text = rollupOf(one);
    const shared = kibOf(text, "Shared_Clean") + kibOf(text, "Shared_Dirty");
    return { shared, owned: kibOf(text, "Rss") - shared };
  });
  const owned = parts.reduce((sum, part) => sum + part.owned, 0);
  return (owned + Math.max(...parts.map(({ shared }) => shared))) / 1024;
}

const rollupOf = (pid: number): string => readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");

const kibOf = (text: string, field: string): number =>
  Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(text)?.[1]);
