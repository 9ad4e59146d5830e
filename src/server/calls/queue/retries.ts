// Decides whether and when a queued call that could not begin is retried: the database is unavailable, the server is busy or stopping, or the
// tenant's rate limit is reached. None of these ends a queued call.
import type { ToolError, ToolResult } from "../../../host/index.ts";
import { TOO_MANY_CALLS } from "../cluster-slots.ts";
import { effectsOf } from "../outcome.ts";

/** Longest time in ms for which one process retries a call after its first failure. Then the failure is its result. */
const RETRY_MS = 15 * 60_000;
/** The same for a call that waits because earlier calls are running or the tenant's rate limit is reached. */
const BUSY_MS = 24 * 3_600_000;
/** Longest delay in ms of a call that waits for its tenant's rate limit. */
const LONGEST_RATE_DELAY_MS = 10 * 60_000;
const PERIODS = { second: 1_000, minute: 60_000 } as const;
const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 30_000;
/** Maximum number of calls whose failures are kept. The oldest are dropped first, and their retry time begins again. */
const MAX_KNOWN = 100_000;

type Failure = Extract<ToolResult, { readonly success: false }>;

/** Reasons of TOOL_UNAVAILABLE that concern the server, not the tool. */
const TEMPORARY_REASONS: ReadonlySet<unknown> = new Set([
  ...["quota_store_failed", "closed", "shutting_down", "session_elsewhere"],
]);
const TEMPORARY_CODES: ReadonlySet<ToolError["code"]> = new Set(["INTERNAL", "TOOL_TIMEOUT", "OVERLOADED"]);

/**
 * Returns whether a call did not begin for a temporary reason.
 * @param isCancelled whether the caller cancelled the call; otherwise a stopping server did
 */
export function mayBeginLater(result: ToolResult, isCancelled: boolean): result is Failure {
  if (result.success || isCancelled || effectsOf(result) !== "none") return false;
  const { code, details } = result.error;
  if (TEMPORARY_CODES.has(code) || code === "CANCELLED" || TEMPORARY_REASONS.has(details?.reason)) return true;
  return isRateLimited(result) || isBusyKey(result);
}

/** Whether the key of a call runs as many calls at the same time as it may. */
const isBusyKey = ({ error: { code, details } }: Failure): boolean =>
  code === "QUOTA_EXCEEDED" && details?.reason === TOO_MANY_CALLS;

/** Whether a call hit its tenant's rate limit. Day and month quotas are not retried. */
const isRateLimited = ({ error: { code, details } }: Failure): boolean =>
  code === "QUOTA_EXCEEDED" && details?.reason === "rate_limited";

interface Known {
  /** Time of the first failure in ms since 1970. */
  readonly since: number;
  readonly count: number;
}

/** A call that could not begin. */
export interface RetriedCall {
  readonly id: string;
  readonly tenant_id: string;
}

/** Keeps the failures of calls that wait for a retry. */
export class RetryTimes {
  readonly #known = new Map<string, Known>();
  /** Latest scheduled retry of a rate-limited call, by tenant. */
  readonly #lastRetries = new Map<string, number>();

  /** Returns the time in ms since 1970 at which a call is retried; undefined if it has failed for too long. */
  next({ id, tenant_id }: RetriedCall, failure: Failure, now: number): number | undefined {
    const { since, count } = this.#known.get(id) ?? { since: now, count: 0 };
    this.#known.delete(id);
    const onlyWaits = failure.error.code === "OVERLOADED" || isBusyKey(failure) || isRateLimited(failure);
    if (now - since > (onlyWaits ? BUSY_MS : RETRY_MS)) return undefined;
    this.#known.set(id, { since, count: count + 1 });
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest);
    if (isRateLimited(failure)) return this.#nextPacedRetry(tenant_id, failure, now);
    // The replica that has the session claims the call at its next retry. The delay stays short whatever the number of earlier retries.
    if (failure.error.details?.reason === "session_elsewhere") return now + FIRST_DELAY_MS;
    // Random, so that the calls are not all retried at once.
    return Math.round(now + Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** count) * (1 + Math.random() / 4));
  }

  /** Spaces the retries of a tenant at its rate limit. */
  #nextPacedRetry(tenantId: string, { error: { details } }: Failure, now: number): number {
    const { retryAfterMs, limit, period } = details ?? {};
    const first = now + (typeof retryAfterMs === "number" ? retryAfterMs : FIRST_DELAY_MS);
    const paceMs = PERIODS[period === "minute" ? "minute" : "second"] / (typeof limit === "number" ? limit : 1);
    const paced = Math.max(first, (this.#lastRetries.get(tenantId) ?? 0) + paceMs);
    const at = Math.min(paced, now + LONGEST_RATE_DELAY_MS);
    this.#lastRetries.delete(tenantId);
    this.#lastRetries.set(tenantId, at);
    const [oldest] = this.#lastRetries.keys();
    if (this.#lastRetries.size > MAX_KNOWN && oldest !== undefined) this.#lastRetries.delete(oldest);
    return Math.ceil(at);
  }

  forget(id: string): void {
    this.#known.delete(id);
  }
}
