// Enforces rate limits and period quotas of tenants and callers: checks them before a call is admitted, and charges its
// usage when it has ended. Fails closed: if the store does not answer, the call is denied.

import { ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import type { CallContext, ToolUsage } from "../../contract/tool-call.ts";
import { type CallbackOutcome, isThenable, notifySafely, runCallback } from "../../util/host-callback.ts";
import { clockOf } from "../../util/store-clock.ts";
import { quotaError, rateError } from "./quota-errors.ts";
import { type PeriodQuota, type QuotaPlan, type QuotaResource, toQuotaPlan, windowAt } from "./quota-options.ts";
import { type QuotaCharge, type QuotaStore, readOutcome, type WindowCharge } from "./quota-store.ts";

/** Timeout of the store in ms. A working store answers within a few ms. */
const STORE_TIMEOUT_MS = 2_000;
/** Largest number of tenants with unpaid charges. Beyond it the oldest are removed. */
const MAX_UNPAID = 10_000;

export interface TenantQuotasDependencies {
  readonly store: QuotaStore;
  /** Receives the reason why a charge failed. */
  readonly onError?: ((error: ToolError) => unknown) | undefined;
  /** Milliseconds since 1970. Default: the clock of the store. */
  readonly now?: (() => number) | undefined;
}

/** Whose quotas a call is charged to: its tenant's, or its caller's. */
export interface QuotaAccount {
  /** Id under which the store has the counters. */
  readonly id: string;
  readonly kind: "tenant" | "caller";
  readonly plan: QuotaPlan;
}

/**
 * Returns the accounts that a call is charged to. Undefined if neither its tenant nor its caller has quotas, which costs a call nothing.
 */
export function accountsOf(
  { tenantId, callerQuotas }: Pick<CallContext, "callerQuotas"> & { readonly tenantId: string },
  { quota }: { readonly quota: QuotaPlan | undefined },
): readonly QuotaAccount[] | undefined {
  const ofCaller = callerQuotas && toQuotaPlan({}, callerQuotas);
  if (quota === undefined && ofCaller === undefined) return undefined;
  return [
    ...(quota === undefined ? [] : [{ id: tenantId, kind: "tenant", plan: quota } as const]),
    ...(ofCaller === undefined ? [] : [{ id: callerQuotas?.id ?? "", kind: "caller", plan: ofCaller } as const]),
  ];
}

type Used = Pick<ToolUsage, "cpuMs" | "egressBytesIn" | "egressBytesOut">;

export class TenantQuotas {
  readonly #store: QuotaStore;
  readonly #onError: TenantQuotasDependencies["onError"];
  readonly #now: () => number;
  /**
   * Pending charges by account. The next call that is charged to it waits for them. Those of failed charges resolve to their failure if they
   * fail again.
   */
  readonly #pending = new Map<string, Set<Promise<ToolError | undefined>>>();
  /** Failed charges by account and name. They are repeated before its next call, which is denied if they fail again. */
  readonly #unpaid = new Map<string, Map<string, WindowCharge>>();

  constructor({ store, onError, now = clockOf(store) }: TenantQuotasDependencies) {
    this.#store = store;
    this.#onError = onError;
    this.#now = now;
  }

  /**
   * Counts a call on all accounts, or on none. Synchronous if the store is.
   * @throws {ToolError} QUOTA_EXCEEDED with `retryAfterMs`; TOOL_UNAVAILABLE if the store failed; CANCELLED. If the
   *   store is asynchronous, rejects with them
   */
  admit(accounts: readonly QuotaAccount[], signal?: AbortSignal): void | Promise<void> {
    for (const { id } of accounts)
      if (this.#pending.has(id) || this.#unpaid.has(id)) return this.#admitAfterCharges(accounts, signal);
    return this.#consume(accounts, signal);
  }

  async #admitAfterCharges(accounts: readonly QuotaAccount[], signal: AbortSignal | undefined): Promise<void> {
    // Another call may start a charge meanwhile: no call is admitted before the store has all charges.
    for (;;) {
      const pending = accounts.flatMap(({ id }) => [...(this.#pending.get(id) ?? [])]);
      if (pending.length === 0) break;
      // All calls that waited for a debt are denied together. If each paid it anew, a store that hangs would hold them one after another.
      const failure = (await Promise.all(pending)).find((failed) => failed !== undefined);
      if (failure !== undefined) throw failure;
    }
    for (const { id } of accounts) {
      const unpaid = [...(this.#unpaid.get(id)?.values() ?? [])].filter(({ endsAt }) => endsAt > this.#now());
      this.#unpaid.delete(id);
      const failure = unpaid.length === 0 ? undefined : await this.#payTracked(id, unpaid, true);
      if (failure !== undefined) throw failure;
    }
    await this.#consume(accounts, signal);
  }

  #consume(accounts: readonly QuotaAccount[], signal: AbortSignal | undefined): void | Promise<void> {
    const now = this.#now();
    const charges: QuotaCharge[] = [];
    /** Returns the error of the charge with the same index. */
    const errors: ((retryAfterMs: number) => ToolError)[] = [];
    for (const account of accounts) {
      const { id, plan } = account;
      const { rate } = plan;
      if (rate !== undefined) {
        const refillMs = (rate.per === "second" ? 1_000 : 60_000) / rate.calls;
        charges.push({ kind: "rate", tenantId: id, name: `calls:${rate.per}`, capacity: rate.burst, refillMs });
        errors.push((retryAfterMs) => rateError(account, rate, retryAfterMs));
      }
      for (const quota of plan.quotas) {
        const amount = quota.resource === "calls" ? 1 : 0;
        charges.push({ ...toWindow(id, quota, amount, now), limit: quota.limit });
        errors.push((retryAfterMs) => quotaError(account, quota, retryAfterMs));
      }
    }
    const check = (outcome: CallbackOutcome): void => {
      if ("failed" in outcome && outcome.failed === "aborted") {
        throw new ToolError("CANCELLED", "The call was cancelled by its caller");
      }
      const denied = readDenial(outcome, charges.length);
      const error = denied && errors[denied.denied]?.(denied.retryAfterMs);
      if (error !== undefined) throw error;
    };
    const asked = runCallback(() => this.#store.consume(charges), { timeoutMs: STORE_TIMEOUT_MS, signal });
    return isThenable(asked) ? asked.then(check) : check(asked);
  }

  /** Charges what an ended call used. Never throws: a failed charge is repeated before the account's next call. */
  charge(accounts: readonly QuotaAccount[], { cpuMs, egressBytesIn, egressBytesOut }: Used): void {
    const used: { readonly [Resource in QuotaResource]: number } = {
      calls: 0,
      cpuMs: Math.ceil(cpuMs),
      egressBytes: egressBytesIn + egressBytesOut,
    };
    const now = this.#now();
    for (const { id, plan } of accounts) {
      const charges = plan.quotas
        .filter(({ resource }) => used[resource] > 0)
        .map((quota): WindowCharge => ({ ...toWindow(id, quota, used[quota.resource], now), limit: undefined }));
      if (charges.length > 0) void this.#payTracked(id, charges);
    }
  }

  /**
   * Makes charges; the account's next calls wait for them.
   * @param isDebt whether the charges have failed before; the calls that wait for them fail if they fail again
   */
  #payTracked(
    id: string,
    charges: readonly WindowCharge[],
    isDebt = false,
  ): ToolError | undefined | Promise<ToolError | undefined> {
    const paying = this.#pay(charges);
    if (!(paying instanceof Promise)) return paying;
    const pending = this.#pending.get(id) ?? new Set();
    this.#pending.set(id, pending);
    const paid = paying.then((failure) => {
      pending.delete(paid);
      if (pending.size === 0 && this.#pending.get(id) === pending) this.#pending.delete(id);
      return isDebt ? failure : undefined;
    });
    pending.add(paid);
    return paying;
  }

  /** Makes charges that must not be lost; returns the failure if the store did not take them. */
  #pay(charges: readonly WindowCharge[]): ToolError | undefined | Promise<ToolError | undefined> {
    const check = (outcome: CallbackOutcome): ToolError | undefined => {
      try {
        readDenial(outcome, charges.length);
        return undefined;
      } catch (thrown) {
        for (const charge of charges) this.#owe(charge);
        notifySafely(this.#onError, thrown as ToolError);
        return thrown as ToolError;
      }
    };
    const asked = runCallback(() => this.#store.consume(charges), { timeoutMs: STORE_TIMEOUT_MS });
    return isThenable(asked) ? asked.then(check) : check(asked);
  }

  #owe(charge: WindowCharge): void {
    const { tenantId, name } = charge;
    const owed = this.#unpaid.get(tenantId) ?? new Map<string, WindowCharge>();
    this.#unpaid.delete(tenantId);
    this.#unpaid.set(tenantId, owed);
    owed.set(name, { ...charge, amount: charge.amount + (owed.get(name)?.amount ?? 0) });
    const [oldest] = this.#unpaid.keys();
    if (this.#unpaid.size > MAX_UNPAID && oldest !== undefined) this.#unpaid.delete(oldest);
  }

  /**
   * Removes the counters of a tenant. Returns their number.
   * @throws {ToolError} INTERNAL, as a rejection, if the store failed
   */
  async deleteTenant(tenantId: string): Promise<number> {
    await Promise.all(this.#pending.get(tenantId) ?? []);
    this.#unpaid.delete(tenantId);
    const outcome = await runCallback(() => this.#store.deleteTenant(tenantId), { timeoutMs: STORE_TIMEOUT_MS });
    if ("answer" in outcome && Number.isInteger(outcome.answer) && (outcome.answer as number) >= 0) {
      return outcome.answer as number;
    }
    const cause = "failed" in outcome ? outcome.cause : new TypeError("deleteTenant() returned no count");
    const why = "failed" in outcome ? outcome.failed : "returned an invalid answer";
    throw new ToolError("INTERNAL", `The quota store failed to delete the tenant: it ${why}`, { cause });
  }
}

function toWindow(tenantId: string, { resource, period }: PeriodQuota, amount: number, now: number) {
  const { startsAt, endsAt } = windowAt(period, now);
  return { kind: "window", tenantId, name: `${resource}:${period}:${startsAt}`, amount, endsAt } as const;
}

/** Returns the denial, if there is one. @throws {ToolError} TOOL_UNAVAILABLE for a store that failed */
function readDenial(outcome: CallbackOutcome, charges: number): { denied: number; retryAfterMs: number } | undefined {
  let cause: unknown;
  let why: string;
  if ("answer" in outcome) {
    try {
      const read = readOutcome(outcome.answer, charges);
      return read.allowed ? undefined : read;
    } catch (thrown) {
      cause = thrown;
      why = "returned an invalid answer";
    }
  } else {
    why = outcome.failed;
    cause = outcome.cause ?? new Error(`The quota store did not answer within ${STORE_TIMEOUT_MS} ms`);
  }
  throw storeFailed(new Error(`The quota store ${why}`, { cause }));
}

const storeFailed = (cause: Error): ToolError =>
  unavailable("quota_store_failed", "The tenant's quota could not be checked, so the call was denied; try again", {
    cause,
  });

/** Returns the error of a call whose own time limit ended while it waited for the store. */
export const quotaTooLate = (timeoutMs: number): ToolError =>
  storeFailed(
    new Error(`The quota store had not answered when the call's ${timeoutMs} ms (limits.timeoutMs) were over`),
  );
