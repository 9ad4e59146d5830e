// Looks for runs that are due, and continues them in the background: runs.ts calls it at each poll. The runs of one tenant do not keep out those
// of others.
import { notifySafely } from "../util/host-callback.ts";
import type { RunScope } from "./claimed-run.ts";
import type { ParsedRunsOptions } from "./run-options.ts";
import type { RunClaim, RunKey, RunRecord } from "./run-store.ts";

/** Most runs that one look for them returns, and that the looks of one process continue at the same time. */
export const MAX_DUE = 100;
/** Most of them that are of one tenant, also while they only wait for a free slot of the tenant. */
const MAX_DUE_PER_TENANT = 10;
/** Places that are kept for tenants with no run among them. */
const KEPT_FREE = 20;

export interface DueRunsParts extends Pick<ParsedRunsOptions, "store" | "onError"> {
  readonly scope: RunScope;
  readonly now: () => number;
  /** Whether all runs are of one tenant, which then may have all places. */
  readonly isAlone: () => boolean;
  /** Returns the number of the claim; undefined if another process has the run. */
  readonly claim: (key: RunKey) => Promise<number | undefined>;
  readonly continueRun: (claim: RunClaim) => Promise<RunRecord>;
}

export class DueRuns {
  readonly #parts: DueRunsParts;
  /** Number of runs that were due and are under way, by tenant. */
  readonly #continued = new Map<string, number>();

  constructor(parts: DueRunsParts) {
    this.#parts = parts;
  }

  /** Continues runs that are due, as many as there is room for. Does not wait for them: one that takes long delays no other. */
  async look(): Promise<void> {
    const { store, scope, now } = this.#parts;
    const total = [...this.#continued.values()].reduce((sum, count) => sum + count, 0);
    const isAlone = this.#parts.isAlone();
    let room = MAX_DUE - total;
    const shareOf = (): number => (isAlone ? MAX_DUE : room > KEPT_FREE ? MAX_DUE_PER_TENANT : 1);
    const hasShare = (tenantId: string): boolean => (this.#continued.get(tenantId) ?? 0) >= shareOf();
    if (room <= 0) return;
    const except = [...this.#continued.keys()].filter(hasShare);
    const due = await store.due(now(), { ...scope, except, perTenant: shareOf(), limit: room });
    const claims: Promise<void>[] = [];
    for (const key of due) {
      if (hasShare(key.tenantId)) continue;
      room -= 1;
      claims.push(this.#continueOne(key));
    }
    await Promise.all(claims);
  }

  /** Claims a run that is due, and continues it in the background. */
  async #continueOne(key: RunKey): Promise<void> {
    const { claim, continueRun, onError } = this.#parts;
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
