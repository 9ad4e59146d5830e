// The arithmetic of a rate limit, for all stores of counters: the generic cell rate algorithm, which keeps one number for a bucket, the time at
// which it is full.
import type { RateCharge } from "./quota-store.ts";

/** Largest difference in ms between the clocks of two hosts. */
const MAX_SKEW_MS = 60_000;

/**
 * Returns when a bucket is full, in ms since 1970. A time that even an empty bucket does not need was stored before the clock was set back: it
 * would deny calls until then, so the bucket counts as full.
 * @param stored undefined for a full bucket
 * @param emptyMs time in ms in which an empty bucket fills up
 */
export const fullAtOf = (stored: number | undefined, emptyMs: number, now: number): number =>
  stored !== undefined && stored <= now + emptyMs + MAX_SKEW_MS ? stored : now;

/** Takes one token: returns when the bucket is full afterwards, in ms since 1970, or how long it is empty. */
export function takeToken(
  { capacity, refillMs }: Pick<RateCharge, "capacity" | "refillMs">,
  stored: number | undefined,
  now: number,
): { readonly fullAt: number } | { readonly retryAfterMs: number } {
  const emptyMs = capacity * refillMs;
  const fullAt = Math.max(now, fullAtOf(stored, emptyMs, now)) + refillMs;
  const earliest = fullAt - emptyMs;
  return earliest > now ? { retryAfterMs: earliest - now } : { fullAt };
}
