// Caches the policies that the host's `tenants` function returns. A look-up has a timeout and is shared by all calls that wait for it. If it
// fails, these calls are denied: no call runs with an outdated policy or without one.

import { setMaxListeners } from "node:events";
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { LIMITS } from "../../sandbox/contract/limits.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { setBounded } from "../util/bounded-map.ts";
import { type CallbackOutcome, notifySafely, runCallback } from "../util/host-callback.ts";
import { untilAborted } from "../util/with-abort.ts";

/** How answers of an asynchronous `tenants` function are cached. */
export interface TenantCacheOptions {
  /** Time in ms that a policy is cached, 0 to 86,400,000 (a day). 0 turns caching off. @default 30_000 */
  readonly ttlMs?: number | undefined;
  /** Largest number of cached policies, 1 to 1,000,000. Beyond it the oldest is removed. @default 10_000 */
  readonly max?: number | undefined;
  /** Timeout of a look-up in ms, 1 to 300,000. @default 5_000 */
  readonly timeoutMs?: number | undefined;
}

export const DEFAULT_TENANT_CACHE = { ttlMs: 30_000, max: 10_000, timeoutMs: 5_000 } as const;

export const TenantCacheSchema = strictObject({
  ttlMs: z.int().min(0).max(86_400_000).default(DEFAULT_TENANT_CACHE.ttlMs),
  max: z.int().min(1).max(1_000_000).default(DEFAULT_TENANT_CACHE.max),
  timeoutMs: z.int().min(1).max(LIMITS.timeoutMs.max).default(DEFAULT_TENANT_CACHE.timeoutMs),
});
export type TenantCacheLimits = z.infer<typeof TenantCacheSchema>;

/** Consecutive failures after which look-ups of a tenant pause, so that not every call queries a database that is down. */
const FAILURES_BEFORE_PAUSE = 5;
const PAUSE_MS = 1_000;

/** A policy whose look-up is pending. */
export interface PendingPolicy<Policy> {
  /**
   * Resolves with the policy.
   * @param signal ends this wait, not the lookup, which others may wait for
   * @throws {ToolError} INTERNAL, as a rejection, if the lookup fails; the signal's reason if it aborts first
   */
  wait(signal?: AbortSignal): Promise<Policy>;
}

interface PolicyCacheDependencies<Policy> extends TenantCacheLimits {
  readonly lookUp: (tenantId: string) => unknown;
  /** @throws {ToolError} for a value that is not a policy */
  readonly parse: (options: unknown, tenantId: string) => Policy;
  readonly onError?: ((error: ToolError) => unknown) | undefined;
}

interface CachedPolicy<Policy> {
  readonly policy: Policy;
  readonly until: number;
}

/** Consecutive failures of one tenant's look-ups. */
interface Failures {
  readonly count: number;
  readonly last: ToolError;
  readonly until: number;
}

/** One run of the host's function, shared by all calls that wait for it. */
class Lookup<Policy> implements PendingPolicy<Policy> {
  readonly #answer: Promise<Policy>;
  #waiting = 0;

  constructor(answer: Promise<Policy>, onUnseen: (error: unknown) => void) {
    this.#answer = answer;
    answer.catch((error: unknown) => {
      if (this.#waiting === 0) onUnseen(error);
    });
  }

  async wait(signal?: AbortSignal): Promise<Policy> {
    this.#waiting += 1;
    try {
      return await (signal === undefined ? this.#answer : untilAborted(this.#answer, signal));
    } finally {
      this.#waiting -= 1;
    }
  }
}

/** Caches policies. Disposing it ends pending look-ups. */
export class PolicyCache<Policy extends object> implements Disposable {
  readonly #dependencies: PolicyCacheDependencies<Policy>;
  /** In the order of their answers, which is the order of their expiry. */
  readonly #known = new Map<string, CachedPolicy<Policy>>();
  readonly #pending = new Map<string, Lookup<Policy>>();
  readonly #failures = new Map<string, Failures>();
  readonly #closed = new AbortController();

  constructor(dependencies: PolicyCacheDependencies<Policy>) {
    this.#dependencies = dependencies;
    // Each pending look-up adds a listener.
    setMaxListeners(0, this.#closed.signal);
  }

  get ttlMs(): number {
    return this.#dependencies.ttlMs;
  }

  /**
   * Returns a cached policy, a policy that the function returned synchronously, or a pending look-up.
   * @param parseNow parses a synchronous answer
   * @throws {ToolError} INTERNAL if the function throws or returns anything but a policy or a promise
   */
  get(tenantId: string, parseNow: (options: unknown) => Policy): Policy | PendingPolicy<Policy> {
    const known = this.#known.get(tenantId);
    if (known !== undefined) {
      if (known.until > performance.now()) return known.policy;
      this.#known.delete(tenantId);
    }
    const pending = this.#pending.get(tenantId);
    if (pending !== undefined) return pending;
    const failures = this.#failures.get(tenantId);
    if (failures !== undefined && failures.until > performance.now()) throw failures.last;
    const { lookUp, timeoutMs } = this.#dependencies;
    const outcome = runCallback(() => lookUp(tenantId), { timeoutMs, signal: this.#closed.signal });
    if (outcome instanceof Promise) return this.#share(tenantId, outcome);
    return parseNow(this.#answerOf(outcome, tenantId));
  }

  #share(tenantId: string, outcome: Promise<CallbackOutcome>): PendingPolicy<Policy> {
    const answer = outcome.then((settled) => this.#dependencies.parse(this.#answerOf(settled, tenantId), tenantId));
    answer.then(
      (policy) => this.#settled(tenantId, lookup, policy),
      (error: ToolError) => this.#failed(tenantId, lookup, error),
    );
    const lookup: Lookup<Policy> = new Lookup(answer, (error) =>
      notifySafely(this.#dependencies.onError, error as ToolError),
    );
    this.#pending.set(tenantId, lookup);
    return lookup;
  }

  /** @throws {ToolError} INTERNAL */
  #answerOf(outcome: CallbackOutcome, tenantId: string): unknown {
    if ("answer" in outcome) return outcome.answer;
    const { failed, cause } = outcome;
    if (failed === "timed out") {
      const { timeoutMs } = this.#dependencies;
      const what = nameOfPolicy(tenantId);
      throw noPolicy(new Error(`${what} did not answer within ${timeoutMs} ms (tenantCache.timeoutMs)`));
    }
    throw noPolicy(cause);
  }

  #settled(tenantId: string, lookup: Lookup<Policy>, policy: Policy): void {
    // The tenant was invalidated meanwhile, so the answer may be outdated.
    if (this.#pending.get(tenantId) !== lookup) return;
    this.#pending.delete(tenantId);
    this.#failures.delete(tenantId);
    const { ttlMs, max } = this.#dependencies;
    if (ttlMs > 0) setBounded(this.#known, tenantId, { policy, until: performance.now() + ttlMs }, max);
  }

  #failed(tenantId: string, lookup: Lookup<Policy>, last: ToolError): void {
    if (this.#pending.get(tenantId) !== lookup) return;
    this.#pending.delete(tenantId);
    const count = (this.#failures.get(tenantId)?.count ?? 0) + 1;
    const until = count < FAILURES_BEFORE_PAUSE ? 0 : performance.now() + PAUSE_MS;
    setBounded(this.#failures, tenantId, { count, last, until }, this.#dependencies.max);
  }

  /** Removes a tenant from the cache. The answer of a pending look-up is not cached. */
  invalidate(tenantId: string): void {
    this.#known.delete(tenantId);
    this.#pending.delete(tenantId);
    this.#failures.delete(tenantId);
  }

  [Symbol.dispose](): void {
    this.#closed.abort(new ToolError("CANCELLED", "Glovebox was closed"));
  }
}

/** Returns the name of a tenant's policy in a message for the operator, who would otherwise not know which of the tenants has failed. */
export const nameOfPolicy = (tenantId: string): string => `options.tenants(${JSON.stringify(tenantId)})`;

/** Returns the error of a call whose tenant has no valid policy, so that it has not begun. The cause is for the operator. */
export const noPolicy = (cause: unknown): ToolError =>
  new ToolError("INTERNAL", "The tenants option gave no valid policy for this tenant", {
    details: { reason: "no_tenant_policy" },
    cause,
  });

/** Returns the error of a call whose own time limit ended while it waited for the policy. */
export const policyTooLate = (tenantId: string, timeoutMs: number): ToolError =>
  noPolicy(
    new Error(
      `${nameOfPolicy(tenantId)} had not answered when the call's ${timeoutMs} ms (limits.timeoutMs) were over`,
    ),
  );
