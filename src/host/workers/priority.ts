// Which niceness an owner's processes get: the operating system then gives way to whoever has used less than its share.
import { availableParallelism } from "node:os";

/**
 * Steps by how much of its fair share of the machine an owner has used of late. Niceness 19 counts a seventieth of 0 (the
 * kernel's sched_prio_to_weight): many threads of one owner then weigh less than one of another.
 */
const STEPS = [
  { shareUsed: 0.75, niceness: 19 },
  { shareUsed: 0.4, niceness: 10 },
] as const;

/**
 * @param rates CPU time of late of each owner that has calls running, as cores
 * @returns the niceness of each, 0 to 19
 */
export function nicenessOf(
  rates: ReadonlyMap<string, number>,
  weightOf: (owner: string) => number,
): ReadonlyMap<string, number> {
  const cores = Math.max(1, availableParallelism());
  let weights = 0;
  for (const owner of rates.keys()) weights += weightOf(owner);
  const niceness = new Map<string, number>();
  for (const [owner, rate] of rates) {
    const share = (cores * weightOf(owner)) / weights;
    const step = STEPS.find(({ shareUsed }) => rate >= shareUsed * share);
    niceness.set(owner, step?.niceness ?? 0);
  }
  return niceness;
}
