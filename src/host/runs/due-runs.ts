// Finds due runs and continues them in the background. runs.ts calls it at each poll. The runs of one tenant do not delay those of others.
import { notifySafely } from "../util/host-callback.ts";
import type { RunScope } from "./claimed-run.ts";
import type { ParsedRunsOptions } from "./run-options.ts";
import type { RunClaim, RunKey, RunRecord } from "./run-store.ts";

/** Maximum number of due runs that one poll returns, and that this process continues at the same time. */
export const MAX_DUE = 100;
/** Maximum of these for one tenant, including runs that wait for a concurrency slot. */
const MAX_DUE_PER_TENANT = 10;
/** Slots reserved for tenants that have no run among them. */
const RESERVED_SLOTS = 20;

export interface DueRunsDependencies extends Pick<ParsedRunsOptions, "store" | "onError"> {
  readonly scope: RunScope;
  readonly now: () => number;
  /** Whether all runs are of one tenant, which may then have all slots. */
  readonly isAlone: () => boolean;
  /** Returns the number of the claim; undefined if another process has the run. */
  readonly claim: (key: RunKey) => Promise<number | undefined>;
  readonly continueRun: (claim: RunClaim) => Promise<RunRecord>;
}

export class DueRuns {
  readonly #dependencies: DueRunsDependencies;
  /** Number of due runs that this process continues now, by tenant. */
  readonly #continued = new Map<string, number>();

  constructor(dependencies: DueRunsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Continues due runs while slots are free. Does not wait for them, so a long run does not delay others. */
  async poll(): Promise<void> {
    const { store, scope, now } = this.#dependencies;
    const total = [...this.#continued.values()].reduce((sum, count) => sum + count, 0);
    const isAlone = this.#dependencies.isAlone();
    let room = MAX_DUE - total;
    const shareOf = (): number => (isAlone ? MAX_DUE : room > RESERVED_SLOTS ? MAX_DUE_PER_TENANT : 1);
    const hasUsedShare = (tenantId: string): boolean => (this.#continued.get(tenantId) ?? 0) >= shareOf();
    if (room <= 0) return;
    const except = [...this.#continued.keys()].filter(hasUsedShare);
    const due = await store.due(now(), { ...scope, except, perTenant: shareOf(), limit: room });
    const claims: Promise<void>[] = [];
    for (const key of due) {
      if (hasUsedShare(key.tenantId)) continue;
      room -= 1;
      claims.push(this.#continueOne(key));
    }
    await Promise.all(claims);
  }

  /** Claims a run that is due, and continues it in the background. */
  async #continueOne(key: RunKey): Promise<void> {
    const { claim, continueRun, onError } = this.#dependencies;
    this.#count(key, 1);
    let fence: number | undefined;
    try {
      fence = await claim(key);
    } finally {
      if (fence === undefined) this.#count(key, -1);
    }
    if (fence === undefined) return;
    continueRun({ ...key, fence })
      .catch((thrown) => notifySafely(onError, thrown))
      .finally(() => this.#count(key, -1));
  }

  #count({ tenantId }: RunKey, change: number): void {
    const sum = (this.#continued.get(tenantId) ?? 0) + change;
    if (sum > 0) this.#continued.set(tenantId, sum);
    else this.#continued.delete(tenantId);
  }
}
