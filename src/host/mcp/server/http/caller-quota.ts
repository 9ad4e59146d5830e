// Counts a resource that callers of the MCP server share, such as requests or bytes, and limits the amount for one caller, for the callers of
// one tenant, and for all.
import { tenantOfCallerKey } from "../authorization/caller.ts";

export interface QuotaLimits {
  readonly perCaller: number;
  readonly perTenant: number;
  readonly total: number;
}

/** The limit that an amount would exceed. */
export type Exceeded = "caller" | "tenant" | "total";

class Amounts {
  readonly #byKey = new Map<string, number>();

  get(key: string): number {
    return this.#byKey.get(key) ?? 0;
  }

  add(key: string, amount: number): void {
    const sum = this.get(key) + amount;
    if (sum > 0) this.#byKey.set(key, sum);
    else this.#byKey.delete(key);
  }
}

export class CallerQuota {
  readonly #limits: QuotaLimits;
  readonly #byOwner = new Amounts();
  readonly #byTenant = new Amounts();
  #total = 0;

  constructor(limits: QuotaLimits) {
    this.#limits = limits;
  }

  /** Takes an amount for a caller. If it would exceed a limit, takes nothing and returns that limit. @param owner as `ownerOf` returns it */
  take(owner: string, amount: number): Exceeded | undefined {
    const { perCaller, perTenant, total } = this.#limits;
    if (this.#byOwner.get(owner) + amount > perCaller) return "caller";
    if (this.#byTenant.get(tenantOfCallerKey(owner)) + amount > perTenant) return "tenant";
    if (this.#total + amount > total) return "total";
    this.#add(owner, amount);
    return undefined;
  }

  /** Returns an amount that was taken before. */
  give(owner: string, amount: number): void {
    this.#add(owner, -amount);
  }

  #add(owner: string, amount: number): void {
    this.#byOwner.add(owner, amount);
    this.#byTenant.add(tenantOfCallerKey(owner), amount);
    this.#total += amount;
  }
}
