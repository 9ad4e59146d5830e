// Finds the limits of the keys that make calls, wherever a call comes from: a request, the queue, another replica, or a durable run.
import type { CallerQuotas } from "../../host/index.ts";
import type { Db } from "../database/open-database.ts";
import { findKeyById, isKeyId, type KeyCallLimits } from "../records/tenants/api-keys.ts";

/** Keys whose limits are remembered. */
const MAX_KNOWN = 10_000;
/** Time in ms for which they are: changes apply within a second at every replica. */
const KNOWN_MS = 500;

interface Known {
  readonly limits: KeyCallLimits | undefined;
  /** By performance.now(). */
  readonly until: number;
}

export class CallerLimits {
  readonly #db: Db;
  readonly #known = new Map<string, Known>();

  constructor(db: Db) {
    this.#db = db;
  }

  /** Returns the limits of a caller; undefined for one without, such as a user, a schedule or a trigger. */
  of(callerId: string): Promise<KeyCallLimits | undefined> | KeyCallLimits | undefined {
    if (!isKeyId(callerId)) return undefined;
    const known = this.#known.get(callerId);
    return known !== undefined && known.until > performance.now() ? known.limits : this.#read(callerId);
  }

  /** Drops the limits of a key that have changed. */
  forget(keyId: string): void {
    this.#known.delete(keyId);
  }

  /** Returns the quotas of a caller as the context of a call has them. */
  async quotasOf(callerId: string): Promise<{ readonly callerQuotas?: CallerQuotas }> {
    const quotas = (await this.of(callerId))?.quotas;
    return quotas === undefined ? {} : { callerQuotas: { id: callerId, quotas } };
  }

  async #read(keyId: string): Promise<KeyCallLimits | undefined> {
    const until = performance.now() + KNOWN_MS;
    const key = await findKeyById(this.#db, keyId);
    // The key was revoked or has expired, and was removed. Its calls are rejected elsewhere.
    if (key === undefined) return undefined;
    const limits = Object.keys(key.callLimits).length === 0 ? undefined : key.callLimits;
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(keyId, { limits, until });
    return limits;
  }
}
