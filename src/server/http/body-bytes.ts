// Limits the bytes of request bodies that the server keeps at a time: for each tenant, so that one cannot use up the memory of all, and in total.
import { RequestError } from "./request-error.ts";

const MiB = 1024 * 1024;
const RETRY_SECONDS = 1;

export interface BodyBytesLimits {
  readonly perTenant: number;
  readonly total: number;
}

/** Returns the limits for a server that accepts bodies of this size. A body that is kept costs several times its size. */
export const bodyLimitsOf = (maxBodyBytes: number): BodyBytesLimits => ({
  perTenant: Math.max(64 * MiB, 2 * maxBodyBytes),
  total: Math.max(512 * MiB, 8 * maxBodyBytes),
});

/** Bytes of one request that are kept. Disposing it twice is a no-op. */
export interface KeptBody extends Disposable {
  /** @throws {RequestError} RATE_LIMITED if the tenant's requests have too many bytes; UNAVAILABLE if those of all tenants have */
  readonly add: (bytes: number) => void;
}

export class BodyBytes {
  readonly #limits: BodyBytesLimits;
  readonly #byOwner = new Map<string, number>();
  #total = 0;

  constructor(limits: BodyBytesLimits) {
    this.#limits = limits;
  }

  /** Starts to count a request. @param owner a tenant, or a key of the platform for a request without a tenant */
  keep(owner: string): KeptBody {
    let kept = 0;
    let isOver = false;
    const change = (bytes: number): void => {
      const left = (this.#byOwner.get(owner) ?? 0) + bytes;
      if (left > 0) this.#byOwner.set(owner, left);
      else this.#byOwner.delete(owner);
      this.#total += bytes;
      kept += bytes;
    };
    return {
      add: (bytes) => {
        if (isOver) return;
        const { perTenant, total } = this.#limits;
        if ((this.#byOwner.get(owner) ?? 0) + bytes > perTenant) {
          const message = `The requests of this tenant that are not answered yet may have ${perTenant} bytes together`;
          throw new RequestError("RATE_LIMITED", message, {
            retryAfterSeconds: RETRY_SECONDS,
            details: { limit: perTenant },
          });
        }
        if (this.#total + bytes > total)
          throw new RequestError("UNAVAILABLE", "The requests that are not answered yet have too many bytes", {
            retryAfterSeconds: RETRY_SECONDS,
          });
        change(bytes);
      },
      [Symbol.dispose]: () => {
        isOver = true;
        change(-kept);
      },
    };
  }
}
