// How long a validation has held the host. On a busy machine the wall clock also counts time in which other processes ran,
// and would stop innocent validations; so past the wall deadline this thread's own CPU time decides.
import { performance } from "node:perf_hooks";

/** However starved the thread is, at this many budgets of wall time it is over. */
const MAX_WALL_BUDGETS = 10;

export class BudgetClock {
  readonly #budgetMs: number;
  readonly #startedAt = performance.now();
  /** Taken at the first look, since it costs a microsecond; what went before counts by the wall clock. */
  #cpuAtLook: number | undefined;
  #usedBeforeLook = 0;

  constructor(budgetMs: number) {
    this.#budgetMs = budgetMs;
  }

  /** Milliseconds used of the budget, as of this look. */
  usedMs(): number {
    const wall = performance.now() - this.#startedAt;
    if (this.#cpuAtLook === undefined) {
      this.#cpuAtLook = threadCpuMs();
      this.#usedBeforeLook = wall;
      return wall;
    }
    if (wall < this.#budgetMs || wall > this.#budgetMs * MAX_WALL_BUDGETS) return wall;
    return this.#usedBeforeLook + threadCpuMs() - this.#cpuAtLook;
  }

  isOver(): boolean {
    return this.usedMs() >= this.#budgetMs;
  }
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
