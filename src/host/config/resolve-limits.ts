// Of all limits that are stated for a call, by whomever, the ones that count.
import {
  DEFAULT_LIMITS,
  LIMITS,
  type LimitName,
  type Limits,
  lowestLimits,
  type PartialLimits,
} from "../../sandbox/contract/limits.ts";

/** Within the hard bounds; a number that is none counts as not stated. */
function withinBounds(name: LimitName, value: number | undefined): number {
  if (value === undefined || Number.isNaN(value)) return Number.POSITIVE_INFINITY;
  return Math.max(LIMITS[name].min, Math.min(value, LIMITS[name].max));
}

/**
 * The limits of one call. What the host states (for all tools, for this one, for this call) replaces the defaults; the
 * lowest of several wins. What a tool's author states can only lower the outcome. Nothing passes the hard bounds.
 * @param defaults of the tool's kind, in the place of everybody's
 */
export function resolveLimits(
  stated: readonly (PartialLimits | undefined)[],
  author: PartialLimits | undefined,
  defaults: PartialLimits = {},
): Limits {
  const limits: Record<LimitName, number> = { ...DEFAULT_LIMITS, ...(defaults as Limits) };
  for (const name of Object.keys(limits) as LimitName[]) {
    let lowest = Number.POSITIVE_INFINITY;
    for (const some of stated) lowest = Math.min(lowest, withinBounds(name, some?.[name]));
    if (lowest !== Number.POSITIVE_INFINITY) limits[name] = Math.ceil(lowest);
  }
  return lowestLimits(limits, author);
}
