// The limit of a tenant's queued calls. It is counted in the database about once a second, and in memory between: with several servers, a tenant can
// exceed it by what it adds at the others within that second.
import { ToolError } from "../../host/index.ts";
import type { Db } from "../database/open-database.ts";
import { countQueued } from "../records/call-claims.ts";
import { type CallRow, findByKey } from "../records/calls.ts";
import { maxAsyncCallsOf } from "../records/tenant-policy.ts";
import type { TenantRecord } from "../records/tenants.ts";

/** Time in ms for which a count is used, and that for which a full queue is taken for full. */
const COUNT_MS = 1_000;
const FULL_MS = 50;
/** Tenants whose counts are remembered. */
const MAX_KNOWN = 10_000;

interface KnownCount {
  readonly at: number;
  count: number;
}

type QueueOwner = Pick<TenantRecord, "id" | "policy">;

function queueFullError(most: number, used: number): ToolError {
  const message = `The queue of the tenant has ${used} of at most ${most} calls (policy.maxAsyncCalls). Wait until some of them have run, or raise the limit`;
  const details = { limit: "maxAsyncCalls", allowed: most, used, retryAfterMs: COUNT_MS };
  return new ToolError("QUOTA_EXCEEDED", message, { details });
}

export class QueueRoom {
  readonly #db: Db;
  readonly #known = new Map<string, KnownCount>();

  constructor(db: Db) {
    this.#db = db;
  }

  /**
   * Checks that the queue has room for further calls of a tenant.
   * @throws {ToolError} QUOTA_EXCEEDED
   */
  async check(tenant: QueueOwner, calls = 1): Promise<void> {
    await this.#read(tenant, calls);
  }

  /**
   * Counts a call that is about to be added.
   * @returns the call that has the same idempotency key already, if there is no room for another one
   * @throws {ToolError} QUOTA_EXCEEDED
   */
  async take(tenant: QueueOwner, row: CallRow): Promise<CallRow | undefined> {
    try {
      (await this.#read(tenant, 1)).count += 1;
      return undefined;
    } catch (thrown) {
      const known = row.idempotency_key === null ? undefined : await findByKey(this.#db, row);
      if (known === undefined) throw thrown;
      return known;
    }
  }

  async #read(tenant: QueueOwner, calls: number): Promise<KnownCount> {
    const { id } = tenant;
    const most = maxAsyncCallsOf(tenant.policy);
    let known = this.#known.get(id);
    const ageMs = performance.now() - (known?.at ?? 0);
    const isFull = (one: KnownCount): boolean => one.count + calls > most;
    if (known === undefined || ageMs > COUNT_MS || (ageMs > FULL_MS && isFull(known))) {
      // Those that are added while the database counts are counted twice for a second, or not at all.
      known = { at: performance.now(), count: await countQueued(this.#db, id, most) };
      if (this.#known.size >= MAX_KNOWN) this.#known.clear();
      this.#known.set(id, known);
    }
    if (isFull(known)) throw queueFullError(most, known.count);
    return known;
  }
}
