// Counts something that callers of the MCP server share, requests or bytes: how much one caller holds, and all of them together.

export interface QuotaLimits {
  readonly perCaller: number;
  readonly total: number;
}

/** Which limit has been reached. */
export type Exceeded = "caller" | "total";

export class CallerQuota {
  readonly #limits: QuotaLimits;
  readonly #byOwner = new Map<string, number>();
  #total = 0;

  constructor(limits: QuotaLimits) {
    this.#limits = limits;
  }

  /** Takes an amount for a caller, or takes nothing and returns the limit that it would exceed. */
  take(owner: string, amount: number): Exceeded | undefined {
    const own = this.#byOwner.get(owner) ?? 0;
    if (own + amount > this.#limits.perCaller) return "caller";
    if (this.#total + amount > this.#limits.total) return "total";
    this.#byOwner.set(owner, own + amount);
    this.#total += amount;
    return undefined;
  }

  /** Gives back what was taken. */
  give(owner: string, amount: number): void {
    const left = (this.#byOwner.get(owner) ?? 0) - amount;
    if (left > 0) this.#byOwner.set(owner, left);
    else this.#byOwner.delete(owner);
    this.#total -= amount;
  }
}
