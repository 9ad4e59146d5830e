// Measures how long a validation has occupied the host. On a busy machine, wall time includes the time of other processes, and would stop
// harmless validations. So the CPU time of the thread decides once the wall time is used up.
import { performance } from "node:perf_hooks";

/** Wall time after which a validation always ends, in budgets, even if its thread got little CPU time. */
const MAX_WALL_BUDGETS = 10;

export class BudgetClock {
  readonly #budgetMs: number;
  readonly #startedAt = performance.now();
  /** CPU time at the first query. Time before it counts as wall time. A query costs a microsecond. */
  #cpuAtFirstQuery: number | undefined;
  #usedBeforeFirstQuery = 0;

  constructor(budgetMs: number) {
    this.#budgetMs = budgetMs;
  }

  /** Returns the used part of the budget in ms. */
  usedMs(): number {
    const wall = performance.now() - this.#startedAt;
    if (this.#cpuAtFirstQuery === undefined) {
      this.#cpuAtFirstQuery = threadCpuMs();
      this.#usedBeforeFirstQuery = wall;
      return wall;
    }
    if (wall < this.#budgetMs || wall > this.#budgetMs * MAX_WALL_BUDGETS) return wall;
    return this.#usedBeforeFirstQuery + threadCpuMs() - this.#cpuAtFirstQuery;
  }

  isOver(): boolean {
    return this.usedMs() >= this.#budgetMs;
  }
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
