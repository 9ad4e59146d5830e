// The default QuotaStore: counters in memory, for one process. Their number is limited: ended counters are removed, and beyond the limit new
// ones are denied.
import type { QuotaCharge, QuotaOutcome, QuotaStore, RateCharge, WindowCharge } from "./quota-store.ts";
import { takeToken } from "./rate-bucket.ts";

/** A counter takes some 200 bytes. */
const MAX_COUNTERS = 1_000_000;
/** Largest number of counters that are checked for expiry at each charge. */
const SWEEP_STEP = 32;
/** Shortest time in ms between two sweeps of a full store. */
const FULL_SWEEP_MS = 1_000;

interface Counter {
  /** For a window: the amount charged. For a bucket: the time when it is full again, in ms since 1970. */
  value: number;
  /** Time in ms since 1970 when the counter can be removed. */
  endsAt: number;
}

export interface MemoryQuotaStoreOptions {
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined;
  /** Largest number of counters. @default 1_000_000 */
  readonly maxCounters?: number | undefined;
}

/** The new value of a counter after a charge. */
type Step = { readonly value: number; readonly endsAt: number } | { readonly retryAfterMs: number };

function stepOfRate(charge: RateCharge, known: Counter | undefined, now: number): Step {
  const taken = takeToken(charge, known?.value, now);
  return "fullAt" in taken ? { value: taken.fullAt, endsAt: taken.fullAt } : taken;
}

function stepOfWindow({ amount, limit, endsAt }: WindowCharge, known: Counter | undefined, now: number): Step {
  const used = known?.value ?? 0;
  if (limit !== undefined && (used >= limit || used + amount > limit)) {
    return { retryAfterMs: Math.max(1, endsAt - now) };
  }
  return { value: used + amount, endsAt };
}

export class MemoryQuotaStore implements QuotaStore {
  readonly #now: () => number;
  readonly #maxCounters: number;
  /** Counters by tenant and name. */
  readonly #tenants = new Map<string, Map<string, Counter>>();
  #size = 0;
  #sweptAt = Number.NEGATIVE_INFINITY;
  #sweep: Iterator<[string, Map<string, Counter>]> | undefined;

  constructor({ now = Date.now, maxCounters = MAX_COUNTERS }: MemoryQuotaStoreOptions = {}) {
    this.#now = now;
    this.#maxCounters = maxCounters;
  }

  /** @throws {Error} if there is no room for a new counter; the call is then denied */
  consume(charges: readonly QuotaCharge[]): QuotaOutcome {
    const now = this.#now();
    const steps: { readonly charge: QuotaCharge; readonly step: Exclude<Step, { retryAfterMs: number }> }[] = [];
    for (const [index, charge] of charges.entries()) {
      const known = this.#find(charge, now);
      const step = charge.kind === "rate" ? stepOfRate(charge, known, now) : stepOfWindow(charge, known, now);
      if ("retryAfterMs" in step) return { allowed: false, denied: index, retryAfterMs: Math.ceil(step.retryAfterMs) };
      if (charge.kind === "rate" || charge.amount > 0) steps.push({ charge, step });
    }
    this.#makeRoom(steps.length, now);
    for (const { charge, step } of steps) this.#set(charge, step);
    return { allowed: true };
  }

  deleteTenant(tenantId: string): number {
    const count = this.#tenants.get(tenantId)?.size ?? 0;
    this.#tenants.delete(tenantId);
    this.#size -= count;
    return count;
  }

  #find({ tenantId, name }: QuotaCharge, now: number): Counter | undefined {
    const known = this.#tenants.get(tenantId)?.get(name);
    return known === undefined || known.endsAt <= now ? undefined : known;
  }

  #set({ tenantId, name }: QuotaCharge, { value, endsAt }: Counter): void {
    let counters = this.#tenants.get(tenantId);
    if (counters === undefined) {
      counters = new Map();
      this.#tenants.set(tenantId, counters);
    }
    const known = counters.get(name);
    if (known !== undefined) {
      known.value = value;
      known.endsAt = endsAt;
      return;
    }
    counters.set(name, { value, endsAt });
    this.#size += 1;
  }

  /** Removes ended counters: a few at each charge, all of them if there is no room. */
  #makeRoom(wanted: number, now: number): void {
    const isFull = this.#size + wanted > this.#maxCounters && Math.abs(now - this.#sweptAt) >= FULL_SWEEP_MS;
    let left = isFull ? Number.POSITIVE_INFINITY : SWEEP_STEP;
    if (isFull) {
      this.#sweptAt = now;
      this.#sweep = undefined;
    }
    while (left > 0) {
      this.#sweep ??= this.#tenants.entries();
      const next = this.#sweep.next();
      if (next.done === true) {
        this.#sweep = undefined;
        break;
      }
      const [tenantId, counters] = next.value;
      left -= 1 + counters.size;
      this.#drop(tenantId, counters, now);
    }
    if (this.#size + wanted > this.#maxCounters) {
      throw new Error(`The quota store in memory is full: it keeps ${this.#maxCounters} counters`);
    }
  }

  #drop(tenantId: string, counters: Map<string, Counter>, now: number): void {
    for (const [name, { endsAt }] of counters) {
      if (endsAt <= now && counters.delete(name)) this.#size -= 1;
    }
    if (counters.size === 0) this.#tenants.delete(tenantId);
  }
}
