// Rate limits and period quotas as a host configures them for a tenant, and the plan that is derived from them once for each policy.
import * as z from "zod";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";

export const QUOTA_PERIODS = ["minute", "hour", "day", "month"] as const;
/** A period of the clock in UTC: a day begins at midnight, a month on its first day. */
export type QuotaPeriod = (typeof QUOTA_PERIODS)[number];

export const QUOTA_RESOURCES = ["calls", "cpuMs", "egressBytes"] as const;
export type QuotaResource = (typeof QUOTA_RESOURCES)[number];

/** Rate limit of a tenant as a token bucket: `calls` per period, and up to `burst` calls at the same time after a pause. */
export interface RateLimitOptions {
  /** Maximum number of calls in the time of `per`. A whole number, 1 to 1,000,000. */
  readonly calls: number;
  /** Time in which `calls` are allowed. */
  readonly per: "second" | "minute";
  /** Maximum number of calls at once, after a time without calls. A whole number, 1 to 1,000,000. @default calls */
  readonly burst?: number | undefined;
}

/** Largest amount in each period, a whole number from 0. An absent period has no quota. */
export type PeriodQuotas = { readonly [Period in QuotaPeriod]?: number | undefined };

/**
 * Quotas of a tenant by period. Calls are counted when they begin, nested calls included. CPU time and egress bytes are charged when a call
 * ends, whatever its outcome: a tenant that has used up its quota is denied new calls, but running calls can exceed it until they end.
 */
export interface QuotaOptions {
  /** Calls. They are counted when they begin, nested calls included. */
  readonly calls?: PeriodQuotas | undefined;
  /** CPU time in ms, the sum of `usage.cpuMs`. */
  readonly cpuMs?: PeriodQuotas | undefined;
  /** Bytes that `fetch` sent and received: `usage.egressBytesOut` plus `usage.egressBytesIn`. */
  readonly egressBytes?: PeriodQuotas | undefined;
}

const MAX_RATE = 1_000_000;
const PeriodQuotasSchema = strictObject(
  Object.fromEntries(QUOTA_PERIODS.map((period) => [period, z.int().min(0).optional()])) as {
    readonly [Period in QuotaPeriod]: z.ZodOptional<z.ZodInt>;
  },
);

export const RateLimitSchema: z.ZodType<RateLimitOptions, RateLimitOptions> = strictObject({
  calls: z.int().min(1).max(MAX_RATE),
  per: z.enum(["second", "minute"]),
  burst: z.int().min(1).max(MAX_RATE).optional(),
});
export const QuotasSchema: z.ZodType<QuotaOptions, QuotaOptions> = strictObject({
  calls: PeriodQuotasSchema.optional(),
  cpuMs: PeriodQuotasSchema.optional(),
  egressBytes: PeriodQuotasSchema.optional(),
});

/** Rate limit and quotas of one configuration: that of the host, or a tenant's policy. */
export interface QuotaPolicy {
  readonly rateLimit?: RateLimitOptions | undefined;
  readonly quotas?: QuotaOptions | undefined;
}

export interface PeriodQuota {
  readonly resource: QuotaResource;
  readonly period: QuotaPeriod;
  readonly limit: number;
}

/** Rate limit and quotas that apply to a tenant. */
export interface QuotaPlan {
  readonly rate: (RateLimitOptions & { readonly burst: number }) | undefined;
  readonly quotas: readonly PeriodQuota[];
}

/**
 * Returns the plan of a tenant, or undefined if it has neither a rate limit nor a quota. The tenant's own `rateLimit` replaces the host's, and each
 * of its quotas replaces the host's quota of the same resource and period.
 */
export function toQuotaPlan(host: QuotaPolicy, tenant: QuotaPolicy): QuotaPlan | undefined {
  const rateLimit = tenant.rateLimit ?? host.rateLimit;
  const quotas = QUOTA_RESOURCES.flatMap((resource) =>
    QUOTA_PERIODS.flatMap((period): readonly PeriodQuota[] => {
      const limit = tenant.quotas?.[resource]?.[period] ?? host.quotas?.[resource]?.[period];
      return limit === undefined ? [] : [{ resource, period, limit }];
    }),
  );
  if (rateLimit === undefined && quotas.length === 0) return undefined;
  const rate = rateLimit && { calls: rateLimit.calls, per: rateLimit.per, burst: rateLimit.burst ?? rateLimit.calls };
  return { rate, quotas };
}

const FIXED_MS = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

/** Returns start and end, in ms since 1970, of the period that contains a point in time. */
export function windowAt(period: QuotaPeriod, now: number): { readonly startsAt: number; readonly endsAt: number } {
  if (period === "month") {
    const date = new Date(now);
    const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
    return { startsAt: Date.UTC(year, month), endsAt: Date.UTC(year, month + 1) };
  }
  const startsAt = Math.floor(now / FIXED_MS[period]) * FIXED_MS[period];
  return { startsAt, endsAt: startsAt + FIXED_MS[period] };
}
