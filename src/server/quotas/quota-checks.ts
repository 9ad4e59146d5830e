// Reads what is left of the limits of a tenant and of the key that makes a call: for the headers of responses, and to reject calls for the queue
// that could not run.
import { quotaError } from "../../host/tenants/quotas/quota-errors.ts";
import type { CallCaller } from "../calls/call-request.ts";
import type { CallerLimits } from "./caller-limits.ts";
import type { DatabaseQuotaStore } from "./database-quota-store.ts";
import { type QuotaStatus, quotaOf, quotaStatuses } from "./quota-status.ts";

export interface QuotaChecksDependencies {
  readonly quotas: Pick<DatabaseQuotaStore, "read" | "now">;
  readonly callerLimits: Pick<CallerLimits, "of">;
}

/** What is left of the limits of a tenant and of a key. */
interface Statuses {
  readonly ofTenant: readonly QuotaStatus[];
  readonly ofKey: readonly QuotaStatus[];
}

export class QuotaChecks {
  readonly #dependencies: QuotaChecksDependencies;

  constructor(dependencies: QuotaChecksDependencies) {
    this.#dependencies = dependencies;
  }

  /** Reads what is left. A tenant and a key without limits cost no query. */
  async read({ tenant, keyId }: Pick<CallCaller, "tenant" | "keyId">): Promise<Statuses> {
    const { quotas, callerLimits } = this.#dependencies;
    const { policy } = tenant;
    const now = quotas.now();
    const hasLimits = policy.rateLimit !== undefined || policy.quotas !== undefined;
    const limits = await callerLimits.of(keyId);
    return {
      ofTenant: hasLimits ? quotaStatuses(policy, await quotas.read(tenant.id), now) : [],
      ofKey: limits?.quotas === undefined ? [] : quotaStatuses(limits, await quotas.read(keyId), now),
    };
  }

  /**
   * Checks that a call which is to run later could run now, as far as its quotas are concerned: one that waits for the next month would fill the
   * queue. Rates do not matter, because queued calls wait for them.
   * @throws {ToolError} QUOTA_EXCEEDED
   */
  async check(caller: Pick<CallCaller, "tenant" | "keyId">): Promise<void> {
    const { ofTenant, ofKey } = await this.read(caller);
    const owners = [
      { statuses: ofTenant, owner: { kind: "tenant", id: caller.tenant.id } },
      { statuses: ofKey, owner: { kind: "caller", id: caller.keyId } },
    ] as const;
    for (const { statuses, owner } of owners) {
      const used = statuses.find(isUsedUp);
      if (used !== undefined) throw quotaError(owner, quotaOf(used), used.resetSeconds * 1_000);
    }
  }
}

const isUsedUp = ({ name, remaining }: QuotaStatus): boolean => name !== "rate" && remaining === 0;
