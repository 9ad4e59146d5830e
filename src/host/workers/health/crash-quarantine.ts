// Tools that may have cost a process its life: their calls get no company until they have shown that they are harmless, so that
// whatever they do next costs only their own call.

import { setBounded } from "../../util/bounded-map.ts";

/** Calls that must end well before a tool is trusted with company again. */
const PROBATION_CALLS = 10;
const MAX_SUSPECTS = 1_000;

export class CrashQuarantine {
  /** Calls that are still to end well; the latest offender last. */
  readonly #left = new Map<string, number>();

  has(lane: string): boolean {
    return this.#left.size > 0 && this.#left.has(lane);
  }

  add(lane: string): void {
    setBounded(this.#left, lane, PROBATION_CALLS, MAX_SUSPECTS);
  }

  endedWell(lane: string): void {
    const left = this.#left.get(lane);
    if (left === undefined) return;
    if (left > 1) this.#left.set(lane, left - 1);
    else this.#left.delete(lane);
  }
}
