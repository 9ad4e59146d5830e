// The executors that a control plane has lost lately, so that an operator sees which machines to look at.
import { setBounded } from "../../util/bounded-map.ts";
import type { ExecutorInfo, LostExecutor } from "./fleet-state.ts";

/** Time in ms for which a lost executor is listed. */
const LISTED_MS = 10 * 60_000;
/** Executors without credentials have another id in each process, so their number is not that of the machines. */
const MAX_LISTED = 1_000;

export class LostExecutors {
  readonly #now: () => number;
  readonly #lost = new Map<string, { readonly executor: LostExecutor; readonly until: number }>();

  /** @param now clock in ms that never goes back. Default: performance.now */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  add(info: ExecutorInfo, reason: LostExecutor["reason"]): void {
    setBounded(this.#lost, info.id, { executor: { ...info, reason }, until: this.#now() + LISTED_MS }, MAX_LISTED);
  }

  /** Returns whether it was lost. */
  delete(id: string): boolean {
    return this.#lost.delete(id);
  }

  list(): readonly LostExecutor[] {
    for (const [id, { until }] of this.#lost) if (until <= this.#now()) this.#lost.delete(id);
    return [...this.#lost.values()].map(({ executor }) => executor).sort((a, b) => (a.id < b.id ? -1 : 1));
  }
}
