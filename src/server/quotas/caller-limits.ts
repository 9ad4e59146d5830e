// Finds the limits of the keys that make calls, wherever a call comes from: a request, the queue, another replica, or a durable run.
import type { CallerQuotas } from "../../host/index.ts";
import type { Db } from "../database/open-database.ts";
import { findKeyById, isKeyId, type KeyCallLimits } from "../records/api-keys.ts";

/** Keys whose limits are remembered. */
const MAX_KNOWN = 10_000;

export class CallerLimits {
  readonly #db: Db;
  /** A key keeps the limits that it was created with, so they are read once. */
  readonly #known = new Map<string, KeyCallLimits | undefined>();

  constructor(db: Db) {
    this.#db = db;
  }

  /** Returns the limits of a caller; undefined for one without, such as a user, a schedule or a trigger. */
  of(callerId: string): Promise<KeyCallLimits | undefined> | KeyCallLimits | undefined {
    if (!isKeyId(callerId)) return undefined;
    return this.#known.has(callerId) ? this.#known.get(callerId) : this.#read(callerId);
  }

  /** Returns the quotas of a caller as the context of a call has them. */
  async quotasOf(callerId: string): Promise<{ readonly callerQuotas?: CallerQuotas }> {
    const quotas = (await this.of(callerId))?.quotas;
    return quotas === undefined ? {} : { callerQuotas: { id: callerId, quotas } };
  }

  async #read(keyId: string): Promise<KeyCallLimits | undefined> {
    const key = await findKeyById(this.#db, keyId);
    // The key was revoked or has expired, and was removed. Its calls are rejected elsewhere.
    if (key === undefined) return undefined;
    const limits = Object.keys(key.callLimits).length === 0 ? undefined : key.callLimits;
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(keyId, limits);
    return limits;
  }
}
