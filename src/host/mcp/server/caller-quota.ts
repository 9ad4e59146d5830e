// Counts a resource that callers of the MCP server share, such as requests or bytes, and limits the amount for one caller and for all.

export interface QuotaLimits {
  readonly perCaller: number;
  readonly total: number;
}

/** The limit that an amount would exceed. */
export type Exceeded = "caller" | "total";

export class CallerQuota {
  readonly #limits: QuotaLimits;
  readonly #byOwner = new Map<string, number>();
  #total = 0;

  constructor(limits: QuotaLimits) {
    this.#limits = limits;
  }

  /** Takes an amount for a caller. If it would exceed a limit, takes nothing and returns that limit. */
  take(owner: string, amount: number): Exceeded | undefined {
    const own = this.#byOwner.get(owner) ?? 0;
    if (own + amount > this.#limits.perCaller) return "caller";
    if (this.#total + amount > this.#limits.total) return "total";
    this.#byOwner.set(owner, own + amount);
    this.#total += amount;
    return undefined;
  }

  /** Returns an amount that was taken before. */
  give(owner: string, amount: number): void {
    const left = (this.#byOwner.get(owner) ?? 0) - amount;
    if (left > 0) this.#byOwner.set(owner, left);
    else this.#byOwner.delete(owner);
    this.#total -= amount;
  }
}
