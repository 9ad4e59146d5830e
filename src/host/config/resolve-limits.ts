// Resolves the effective limits of a call from the defaults and those of host, tenant, tool, author and call.
import {
  DEFAULT_LIMITS,
  LIMITS,
  type LimitName,
  type Limits,
  lowestLimits,
  type PartialLimits,
} from "../../sandbox/contract/limits.ts";

/** Clamps a limit to its hard bounds. A missing value and NaN count as no limit. */
function withinBounds(name: LimitName, value: number | undefined): number {
  if (value === undefined || Number.isNaN(value)) return Number.POSITIVE_INFINITY;
  return Math.max(LIMITS[name].min, Math.min(value, LIMITS[name].max));
}

/**
 * Resolves the limits of one call. Limits that the host configures (for all tools, the tenant, the tool or the call) replace the defaults,
 * and the lowest of them applies. Limits of the tool's author can only lower the result. All stay within the hard bounds.
 * @param configured limits of the host, of every level
 * @param author limits in the tool's own definition
 * @param defaults defaults of the tool's kind, which replace the general ones
 */
export function resolveLimits(
  configured: readonly (PartialLimits | undefined)[],
  author: PartialLimits | undefined,
  defaults: PartialLimits = {},
): Limits {
  const limits: Record<LimitName, number> = { ...DEFAULT_LIMITS, ...(defaults as Limits) };
  for (const name of Object.keys(limits) as LimitName[]) {
    let lowest = Number.POSITIVE_INFINITY;
    for (const some of configured) lowest = Math.min(lowest, withinBounds(name, some?.[name]));
    if (lowest !== Number.POSITIVE_INFINITY) limits[name] = Math.ceil(lowest);
  }
  return lowestLimits(limits, author);
}
