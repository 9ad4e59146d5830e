// Describes the rate limits and quotas of a tenant: what each allows, how much is left, and when it starts again.
import {
  type PeriodQuota,
  QUOTA_PERIODS,
  QUOTA_RESOURCES,
  type QuotaPeriod,
  type QuotaResource,
  windowAt,
} from "../../host/tenants/quotas/quota-options.ts";
import { fullAtOf } from "../../host/tenants/quotas/rate-bucket.ts";
import type { ServerTenantPolicy } from "../records/tenants/tenant-policy.ts";

/** Length in ms of the period of a rate. */
export const RATE_MS = { second: 1_000, minute: 60_000 } as const;

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
  return quotas?.[resource as QuotaResource]?.[period as QuotaPeriod];
}

/** Returns what a status of a period's quota, `calls:month`, is about. */
export function quotaOf({ name, limit }: QuotaStatus): PeriodQuota {
  const [resource, period] = name.split(":");
  return { resource: resource as QuotaResource, period: period as QuotaPeriod, limit };
}

/** A rate as a bucket: `calls` per period, up to `burst` at once. */
export interface Rate {
  readonly calls: number;
  readonly per: "second" | "minute";
  readonly burst?: number | undefined;
}

/** @param fullAt when the bucket is full, in ms since 1970; undefined for a full one */
export function rateStatus({ calls, per, burst = calls }: Rate, fullAt: number | undefined, now: number): QuotaStatus {
  const refillMs = RATE_MS[per] / calls;
  const missing = Math.max(0, fullAtOf(fullAt, burst * refillMs, now) - now) / refillMs;
  return {
    name: "rate",
    limit: burst,
    used: Math.ceil(missing),
    remaining: Math.max(0, Math.floor(burst - missing)),
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
  for (const resource of QUOTA_RESOURCES) {
    for (const period of QUOTA_PERIODS) {
      const limit = quotas?.[resource]?.[period];
      if (limit === undefined) continue;
      const { startsAt, endsAt } = windowAt(period, now);
      const used = counters.get(`${resource}:${period}:${startsAt}`) ?? 0;
      statuses.push({
        name: `${resource}:${period}`,
        limit,
        used,
        remaining: Math.max(0, limit - used),
        windowSeconds: Math.round((endsAt - startsAt) / 1_000),
        resetSeconds: Math.ceil((endsAt - now) / 1_000),
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
