// Builds the errors of calls that a rate limit or a quota rejects. The server uses them too, for calls that it rejects before they are queued.
import { type ErrorDetails, ToolError } from "../../../sandbox/contract/errors.ts";
import type { PeriodQuota, QuotaPlan, QuotaResource } from "./quota-options.ts";

/** Whose limit it is: a tenant's or a caller's. */
export interface QuotaOwner {
  readonly kind: "tenant" | "caller";
  readonly id: string;
}

const TIME_UNITS = [
  ["days", 86_400_000],
  ["hours", 3_600_000],
  ["minutes", 60_000],
  ["s", 1_000],
  ["ms", 1],
] as const;

/** The time in the largest unit of which it has at least two: `try again in 3 days`. */
function after(retryAfterMs: number): string {
  const [unit, ms] = TIME_UNITS.find(([, unitMs]) => retryAfterMs >= 2 * unitMs) ?? ["ms", 1];
  return `try again in ${Math.ceil(retryAfterMs / ms)} ${unit}`;
}

/** Names the owner in messages. A caller is named by its id, because a tenant has several. */
const nameOf = ({ kind, id }: QuotaOwner): string =>
  kind === "tenant" ? "This tenant" : `The caller ${JSON.stringify(id)}`;
const callerOf = ({ kind, id }: QuotaOwner): ErrorDetails => (kind === "tenant" ? {} : { callerId: id });

const UNITS: { readonly [Resource in QuotaResource]: readonly [one: string, several: string] } = {
  calls: ["call", "calls"],
  cpuMs: ["ms of CPU time", "ms of CPU time"],
  egressBytes: ["byte of egress", "bytes of egress"],
};

/** Returns the QUOTA_EXCEEDED error of a call that came too soon after others. */
export function rateError(owner: QuotaOwner, rate: NonNullable<QuotaPlan["rate"]>, retryAfterMs: number): ToolError {
  const { calls, per, burst } = rate;
  const most = `${calls} ${UNITS.calls[calls === 1 ? 0 : 1]} per ${per}, ${burst} at once`;
  const message = `${nameOf(owner)} may make ${most} (rateLimit); ${after(retryAfterMs)}`;
  const details: ErrorDetails = { reason: "rate_limited", quota: "calls", limit: calls, period: per, retryAfterMs };
  return new ToolError("QUOTA_EXCEEDED", message, { details });
}

/** Returns the QUOTA_EXCEEDED error of a call whose tenant or caller has used up a quota. */
export function quotaError(
  owner: QuotaOwner,
  { resource, period, limit }: PeriodQuota,
  retryAfterMs: number,
): ToolError {
  const quota = `${limit} ${UNITS[resource][limit === 1 ? 0 : 1]}`;
  const message = `${nameOf(owner)} has used its quota of ${quota} for this ${period} (quotas.${resource}.${period})`;
  const details: ErrorDetails = { reason: "quota_used_up", quota: resource, limit, period, retryAfterMs };
  return new ToolError("QUOTA_EXCEEDED", `${message}; ${after(retryAfterMs)}`, {
    details: { ...details, ...callerOf(owner) },
  });
}
