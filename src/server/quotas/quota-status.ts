// Describes the rate limits and quotas of a tenant: what each allows, how much is left, and when it starts again.
import type { ServerTenantPolicy } from "../records/tenant-policy.ts";

const PERIODS = ["minute", "hour", "day", "month"] as const;
const RESOURCES = ["calls", "cpuMs", "egressBytes"] as const;
const FIXED_MS = { second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

/** Share of a limit at which its tenant is warned. */
export const WARN_AT = 0.8;

export interface QuotaStatus {
  /** `rate` of a tenant, `key` for the rate of a key, or resource and period: `calls:month`. In headers, those of a key begin with `key:`. */
  readonly name: string;
  readonly limit: number;
  readonly used: number;
  readonly remaining: number;
  /** Length of the window in seconds. */
  readonly windowSeconds: number;
  /** Seconds until more is available. */
  readonly resetSeconds: number;
}

function windowAt(period: (typeof PERIODS)[number], now: number): { readonly start: number; readonly end: number } {
  if (period === "month") {
    const date = new Date(now);
    const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
    return { start: Date.UTC(year, month), end: Date.UTC(year, month + 1) };
  }
  const start = Math.floor(now / FIXED_MS[period]) * FIXED_MS[period];
  return { start, end: start + FIXED_MS[period] };
}

const STORED_BYTES = "storedBytes";

/** Returns the name of a quota by that of a counter, which also has the start of the window: `calls:month` of `calls:month:1760000000000`. */
export const toQuotaName = (counter: string): string => {
  const [resource = "", period] = counter.split(":");
  return resource === STORED_BYTES || period === undefined ? resource : `${resource}:${period}`;
};

/** Returns the limit of a quota by its name; undefined if the policy has no such quota. */
export function quotaLimitOf(
  { quotas, maxStoredBytes }: Pick<ServerTenantPolicy, "quotas" | "maxStoredBytes">,
  name: string,
): number | undefined {
  if (name === STORED_BYTES) return maxStoredBytes;
  const [resource, period] = name.split(":");
  return quotas?.[resource as (typeof RESOURCES)[number]]?.[period as (typeof PERIODS)[number]];
}

/** A rate as a bucket: `calls` per period, up to `burst` at once. */
export interface Rate {
  readonly calls: number;
  readonly per: "second" | "minute";
  readonly burst?: number | undefined;
}

/** @param fullAt when the bucket is full, in ms since 1970; undefined for a full one */
export function rateStatus({ calls, per, burst = calls }: Rate, fullAt: number | undefined, now: number): QuotaStatus {
  const refillMs = FIXED_MS[per] / calls;
  const missing = Math.max(0, (fullAt ?? now) - now) / refillMs;
  return {
    ...{ name: "rate", limit: burst, used: Math.ceil(missing), remaining: Math.max(0, Math.floor(burst - missing)) },
    windowSeconds: Math.max(1, Math.round((burst * refillMs) / 1_000)),
    resetSeconds: Math.ceil((missing * refillMs) / 1_000),
  };
}

/** @param counters values of the tenant's counters by name, as the quota store has them */
export function quotaStatuses(
  { rateLimit, quotas }: Pick<ServerTenantPolicy, "rateLimit" | "quotas">,
  counters: ReadonlyMap<string, number>,
  now: number,
): readonly QuotaStatus[] {
  const statuses: QuotaStatus[] = [];
  if (rateLimit !== undefined) statuses.push(rateStatus(rateLimit, counters.get(`calls:${rateLimit.per}`), now));
  for (const resource of RESOURCES) {
    for (const period of PERIODS) {
      const limit = quotas?.[resource]?.[period];
      if (limit === undefined) continue;
      const { start, end } = windowAt(period, now);
      const used = counters.get(`${resource}:${period}:${start}`) ?? 0;
      statuses.push({
        ...{ name: `${resource}:${period}`, limit, used, remaining: Math.max(0, limit - used) },
        windowSeconds: Math.round((end - start) / 1_000),
        resetSeconds: Math.ceil((end - now) / 1_000),
      });
    }
  }
  return statuses;
}

/**
 * Returns the header fields `RateLimit-Policy` and `RateLimit` (IETF draft-ietf-httpapi-ratelimit-headers): a list with an item for each
 * limit, its quota, window, remaining amount and seconds until it is reset.
 */
export function toRateLimitHeaders(statuses: readonly QuotaStatus[]): { readonly [name: string]: string } {
  if (statuses.length === 0) return {};
  const list = (show: (status: QuotaStatus) => string): string =>
    statuses.map((status) => `"${status.name.replaceAll(":", "-")}";${show(status)}`).join(", ");
  return {
    "ratelimit-policy": list(({ limit, windowSeconds }) => `q=${limit};w=${windowSeconds}`),
    ratelimit: list(({ remaining, resetSeconds }) => `r=${remaining};t=${resetSeconds}`),
  };
}
