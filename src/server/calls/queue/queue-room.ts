// The limits of queued calls of a tenant and of a key. They are counted in the database about once a second, and in memory between: with several
// servers, a tenant can exceed its limit by what it adds at the others within that second.
import { ToolError } from "../../../host/index.ts";
import type { Db } from "../../database/open-database.ts";
import type { CallerLimits } from "../../quotas/caller-limits.ts";
import { countQueued } from "../../records/calls/call-claims.ts";
import { type CallRow, findByKey } from "../../records/calls/calls.ts";
import { maxAsyncCallsOf } from "../../records/tenants/tenant-policy.ts";
import type { TenantRecord } from "../../records/tenants/tenants.ts";

/** Time in ms for which a count is used, and that for which a full queue is taken for full. */
const COUNT_MS = 1_000;
const FULL_MS = 50;
/** Tenants and keys whose counts are remembered. */
const MAX_KNOWN = 10_000;

interface KnownCount {
  readonly at: number;
  count: number;
}

/** Who adds calls to the queue. */
interface QueueOwner {
  readonly tenant: Pick<TenantRecord, "id" | "policy">;
  readonly keyId: string;
}

interface QueueLimit {
  readonly counted: Parameters<typeof countQueued>[1];
  readonly max: number;
}

function queueFullError({ counted, max }: QueueLimit, used: number): ToolError {
  const [what, where, owner] =
    typeof counted === "string"
      ? ["the tenant", "policy.maxAsyncCalls", {}]
      : [`the key ${JSON.stringify(counted.keyId)}`, "maxAsyncCalls of the key", { callerId: counted.keyId }];
  const message = `The queue of ${what} has ${used} of at most ${max} calls (${where}). Wait until some of them have run, or raise the limit`;
  const details = { limit: "maxAsyncCalls", allowed: max, used, retryAfterMs: COUNT_MS, ...owner };
  return new ToolError("QUOTA_EXCEEDED", message, { details });
}

export class QueueRoom {
  readonly #db: Db;
  readonly #callerLimits: Pick<CallerLimits, "of">;
  readonly #known = new Map<string, KnownCount>();

  constructor(db: Db, callerLimits: Pick<CallerLimits, "of">) {
    this.#db = db;
    this.#callerLimits = callerLimits;
  }

  /**
   * Checks that the queue has room for further calls of a tenant and a key.
   * @throws {ToolError} QUOTA_EXCEEDED
   */
  async check(owner: QueueOwner, calls = 1): Promise<void> {
    await this.#read(owner, calls);
  }

  /**
   * Counts a call that is about to be added.
   * @returns the call that has the same idempotency key already, if there is no room for another one
   * @throws {ToolError} QUOTA_EXCEEDED
   */
  async take(owner: QueueOwner, row: CallRow): Promise<CallRow | undefined> {
    try {
      for (const known of await this.#read(owner, 1)) known.count += 1;
      return undefined;
    } catch (thrown) {
      const known = row.idempotency_key === null ? undefined : await findByKey(this.#db, row);
      if (known === undefined) throw thrown;
      return known;
    }
  }

  /** Returns the counts that further calls add to. */
  async #read({ tenant, keyId }: QueueOwner, calls: number): Promise<readonly KnownCount[]> {
    const ofKey = (await this.#callerLimits.of(keyId))?.maxAsyncCalls;
    const own = await this.#count({ counted: tenant.id, max: maxAsyncCallsOf(tenant.policy) }, calls);
    return ofKey === undefined ? [own] : [own, await this.#count({ counted: { keyId }, max: ofKey }, calls)];
  }

  async #count(limit: QueueLimit, calls: number): Promise<KnownCount> {
    const { counted, max } = limit;
    // A tenant's id has no slash.
    const name = typeof counted === "string" ? counted : `key/${counted.keyId}`;
    let known = this.#known.get(name);
    const ageMs = performance.now() - (known?.at ?? 0);
    const isFull = (one: KnownCount): boolean => one.count + calls > max;
    if (known === undefined || ageMs > COUNT_MS || (ageMs > FULL_MS && isFull(known))) {
      // Those that are added while the database counts are counted twice for a second, or not at all.
      known = { at: performance.now(), count: await countQueued(this.#db, counted, max) };
      if (this.#known.size >= MAX_KNOWN) this.#known.clear();
      this.#known.set(name, known);
    }
    if (isFull(known)) throw queueFullError(limit, known.count);
    return known;
  }
}
