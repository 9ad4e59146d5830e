// Decides which queued calls are put back because they could not begin, and for how long: a database that is slow or away for a while, a
// server that is busy or stops, or a tenant's rate ends no call of the queue.
import type { ToolError, ToolResult } from "../../host/index.ts";
import { effectsOf } from "./outcome.ts";

/** Longest time in ms for which one process puts a call back after its first failure. Then the failure is its result. */
const RETRY_MS = 15 * 60_000;
/** The same for a call that only waits for its turn: calls before it are running, or the tenant's rate is used up. */
const BUSY_MS = 24 * 3_600_000;
/** Longest delay of a call that waits for its tenant's rate. */
const LONGEST_RATE_DELAY_MS = 10 * 60_000;
const PERIODS = { second: 1_000, minute: 60_000 } as const;
const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 30_000;
/** Calls that are remembered. Beyond it the oldest are forgotten, and their time begins again. */
const MAX_KNOWN = 100_000;

type Failure = Extract<ToolResult, { readonly success: false }>;

/** Reasons of TOOL_UNAVAILABLE that concern the server and not the tool. */
const PASSING_REASONS: ReadonlySet<unknown> = new Set([
  ...["quota_store_failed", "closed", "shutting_down", "session_elsewhere"],
]);
const PASSING_CODES: ReadonlySet<ToolError["code"]> = new Set(["INTERNAL", "TOOL_TIMEOUT", "OVERLOADED"]);

/**
 * Returns whether a call did not begin for a reason that may pass.
 * @param isCancelled whether its caller has cancelled it. Otherwise the server that stops has
 */
export function mayBeginLater(result: ToolResult, isCancelled: boolean): result is Failure {
  if (result.success || isCancelled || effectsOf(result) !== "none") return false;
  const { code, details } = result.error;
  if (PASSING_CODES.has(code) || code === "CANCELLED" || PASSING_REASONS.has(details?.reason)) return true;
  return isRateLimited(result);
}

/** Whether a call met its tenant's rate. A quota of a day or a month is no reason to wait. */
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

/** Remembers the failures of the calls that wait for another try. */
export class RetryTimes {
  readonly #known = new Map<string, Known>();
  /** The latest time at which a call of a tenant returns that met the tenant's rate. */
  readonly #turns = new Map<string, number>();

  /** Returns the time in ms since 1970 at which a call is tried again; undefined if it has failed for too long. */
  next({ id, tenant_id }: RetriedCall, failure: Failure, now: number): number | undefined {
    const { since, count } = this.#known.get(id) ?? { since: now, count: 0 };
    this.#known.delete(id);
    const onlyWaits = failure.error.code === "OVERLOADED" || isRateLimited(failure);
    if (now - since > (onlyWaits ? BUSY_MS : RETRY_MS)) return undefined;
    this.#known.set(id, { since, count: count + 1 });
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest);
    if (isRateLimited(failure)) return this.#nextTurn(tenant_id, failure, now);
    // The replica that has the session takes the call when it is its turn: that time does not grow with the number of the others.
    if (failure.error.details?.reason === "session_elsewhere") return now + FIRST_DELAY_MS;
    // Spread, so that the calls do not return all at once.
    return Math.round(now + Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** count) * (1 + Math.random() / 4));
  }

  /** Gives the calls of a tenant turns at the pace of its rate, so that each of them returns once. */
  #nextTurn(tenantId: string, { error: { details } }: Failure, now: number): number {
    const { retryAfterMs, limit, period } = details ?? {};
    const first = now + (typeof retryAfterMs === "number" ? retryAfterMs : FIRST_DELAY_MS);
    const paceMs = PERIODS[period === "minute" ? "minute" : "second"] / (typeof limit === "number" ? limit : 1);
    const turn = Math.max(first, (this.#turns.get(tenantId) ?? 0) + paceMs);
    const at = Math.min(turn, now + LONGEST_RATE_DELAY_MS);
    this.#turns.delete(tenantId);
    this.#turns.set(tenantId, at);
    const [oldest] = this.#turns.keys();
    if (this.#turns.size > MAX_KNOWN && oldest !== undefined) this.#turns.delete(oldest);
    return Math.ceil(at);
  }

  forget(id: string): void {
    this.#known.delete(id);
  }
}
