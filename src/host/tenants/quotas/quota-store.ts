// QuotaStore: stores the counters of rate limits and quotas. The default is in memory; a host with several processes passes its own, for
// example with Redis or Postgres. Every implementation passes test/host/tenants/quota-store-conformance.ts.
import * as z from "zod";

/** One token of a bucket that refills steadily: a rate with a burst. */
export interface RateCharge {
  readonly kind: "rate";
  readonly tenantId: string;
  /** Name of the bucket, unique within the tenant, 1 to 128 characters. */
  readonly name: string;
  /** Tokens that a full bucket holds, a whole number from 1. A bucket that does not exist is full. */
  readonly capacity: number;
  /** Time in ms until one token is added, greater than 0. */
  readonly refillMs: number;
}

/** A charge of a counter that ends at a point in time. */
export interface WindowCharge {
  readonly kind: "window";
  readonly tenantId: string;
  /** Name of the counter, unique within the tenant, 1 to 128 characters. It contains the start of the window, so each window has its own. */
  readonly name: string;
  /** Amount from 0. An amount of 0 only checks whether the limit is reached. */
  readonly amount: number;
  /** Largest total. Undefined: the amount is added in any case, because it is spent already. */
  readonly limit: number | undefined;
  /** End of the window in ms since 1970. The store can remove the counter then. */
  readonly endsAt: number;
}

/** A charge that a {@link QuotaStore} allows or denies: against a rate, or against a quota of a period. */
export type QuotaCharge = RateCharge | WindowCharge;

/** Answer of a {@link QuotaStore}: all charges of the request are made, or none. */
export type QuotaOutcome =
  | { readonly allowed: true }
  | {
      readonly allowed: false;
      /** Index of the denied charge. */
      readonly denied: number;
      /** Time in ms until that charge can be allowed; for a window, until it ends. */
      readonly retryAfterMs: number;
    };

/**
 * Keeps counters for all tenants and processes that share it. Methods can be synchronous or return a promise. A method that throws, rejects,
 * takes longer than 2 s or returns another form denies the call: TOOL_UNAVAILABLE with `details.reason: "quota_store_failed"`, and
 * `onError` receives the cause.
 */
export interface QuotaStore {
  /**
   * Makes all charges, or none, as one atomic operation. A rate is denied if its bucket has no whole token. A window is denied if its total
   * has reached the limit, or would exceed it. A charge that is denied leaves every counter as it was.
   */
  consume(charges: readonly QuotaCharge[]): QuotaOutcome | Promise<QuotaOutcome>;
  /** Removes all counters of a tenant. Returns their number, as far as the store knows it. */
  deleteTenant(tenantId: string): number | Promise<number>;
  /** Time by which windows begin and end, in whole ms since 1970, for processes that share the store. Default: the clock of each machine. */
  now?(): number;
}

/** Returns whether a value has the methods of a store. Never throws. */
export function isQuotaStore(value: unknown): value is QuotaStore {
  if (typeof value !== "object" || value === null) return false;
  try {
    const { consume, deleteTenant } = value as Partial<QuotaStore>;
    return typeof consume === "function" && typeof deleteTenant === "function";
  } catch {
    return false;
  }
}

export const QuotaStoreSchema: z.ZodType<QuotaStore, QuotaStore> = z.custom<QuotaStore>(
  isQuotaStore,
  "Expected a QuotaStore: { consume, deleteTenant }",
);

const OutcomeSchema = z.discriminatedUnion("allowed", [
  z.object({ allowed: z.literal(true) }),
  z.object({ allowed: z.literal(false), denied: z.int().min(0), retryAfterMs: z.number().min(0) }),
]);

/** @throws {TypeError} for a value that is not the outcome of this number of charges */
export function readOutcome(answer: unknown, charges: number): QuotaOutcome {
  const { data, error } = OutcomeSchema.safeParse(answer);
  if (error !== undefined) {
    const [issue] = error.issues;
    throw new TypeError(`The quota store returned an invalid answer from consume(): ${issue?.message ?? "wrong type"}`);
  }
  if (!data.allowed && data.denied >= charges) {
    throw new TypeError(
      `The quota store returned an invalid answer from consume(): denied: Expected less than ${charges}`,
    );
  }
  return data;
}
