// Responses that stay open: their number per tenant, per key and in total, and their end when their sender is revoked or expires. A request is
// authenticated when it begins, which is not enough for one that lasts.
import type { Principal } from "../auth/principal.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import { findLive } from "../records/tenants/principals.ts";
import { RequestError } from "./request-error.ts";

/** Time in ms between two checks of the senders. With Postgres, another replica may have revoked one. */
const CHECK_MS = 500;
const RETRY_SECONDS = 5;
/** Time in ms that a stream which is the response of a call may last after its sender has expired, as over MCP. */
const EXPIRED_CALL_MS = 60_000;

export interface StreamLimits {
  readonly perTenant: number;
  readonly perKey: number;
  /** Limit for all tenants together. Leaves connections for other requests. */
  readonly total: number;
  /** Longest time in ms that a stream which its client can resume stays open. */
  readonly maxMs: number;
}

interface StreamOwner {
  readonly principal: Principal;
  readonly tenantId: string;
}

/** One response that stays open. */
export class OpenStream {
  readonly owner: StreamOwner;
  readonly #controller = new AbortController();
  readonly #maxMs: number;
  readonly #onEnd: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(owner: StreamOwner, maxMs: number, onEnd: () => void) {
    this.owner = owner;
    this.#maxMs = maxMs;
    this.#onEnd = onEnd;
  }

  /** Aborts when the stream must end, and when it has ended. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether it only shows what happens: then nothing is lost if it ends. */
  get isResumable(): boolean {
    return this.#timer !== undefined;
  }

  /** Ends the stream after the longest time that one may last. For a stream that its client can resume. */
  limitTime(): void {
    this.#timer ??= setTimeout(() => this.end(), this.#maxMs).unref();
  }

  end(): void {
    if (this.signal.aborted) return;
    clearTimeout(this.#timer);
    this.#onEnd();
    this.#controller.abort();
  }

  /** Returns a response whose body ends with this stream, and this stream with it. What is cut off lacks its last event or line. */
  bind({ body, status, headers }: Response): Response {
    if (body === null) {
      this.end();
      return new Response(null, { status, headers });
    }
    const reader = body.getReader();
    let isOver = false;
    const finish = (settle: () => void): void => {
      if (isOver) return;
      isOver = true;
      settle();
      this.end();
    };
    const bound = new ReadableStream<Uint8Array>({
      start: (controller) => {
        const stop = (): void =>
          finish(() => {
            controller.close();
            reader.cancel().catch(() => {});
          });
        if (this.signal.aborted) stop();
        else this.signal.addEventListener("abort", stop, { once: true });
      },
      pull: async (controller) => {
        try {
          const { done, value } = await reader.read();
          if (isOver) return;
          if (done) finish(() => controller.close());
          else controller.enqueue(value);
        } catch (thrown) {
          finish(() => controller.error(thrown));
        }
      },
      cancel: async (reason) => {
        finish(() => {});
        await reader.cancel(reason);
      },
    });
    return new Response(bound, { status, headers });
  }
}

export class OpenStreams implements Disposable {
  readonly #database: Pick<OpenDatabase, "db" | "clock">;
  readonly #limits: StreamLimits;
  readonly #onError: (error: unknown) => void;
  readonly #open = new Set<OpenStream>();
  readonly #watches = new Set<OpenStream>();
  readonly #perTenant = new Map<string, number>();
  readonly #perKey = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #hasFailed = false;
  #isClosed = false;

  constructor(database: Pick<OpenDatabase, "db" | "clock">, limits: StreamLimits, onError: (error: unknown) => void) {
    this.#database = database;
    this.#limits = limits;
    this.#onError = onError;
  }

  /**
   * Opens a stream. Its caller ends it, or binds it to a response.
   * @throws {RequestError} RATE_LIMITED if the tenant or the key has too many of them; UNAVAILABLE if this process has
   */
  open(principal: Principal, tenantId: string): OpenStream {
    const { perTenant, perKey, total, maxMs } = this.#limits;
    // A key of the platform can act for many users. What it opens counts for their tenants.
    const isLimited = principal.tenantId !== null;
    if ((this.#perTenant.get(tenantId) ?? 0) >= perTenant) throw tooMany("tenant", perTenant);
    if (isLimited && (this.#perKey.get(principal.keyId) ?? 0) >= perKey) throw tooMany("key", perKey);
    if (this.#open.size >= total)
      throw new RequestError("UNAVAILABLE", "Too many streams are open", { retryAfterSeconds: RETRY_SECONDS });
    const stream = new OpenStream({ principal, tenantId }, maxMs, () => {
      this.#open.delete(stream);
      add(this.#perTenant, tenantId, -1);
      add(this.#perKey, principal.keyId, -1);
      this.#stopIfUnused();
    });
    this.#open.add(stream);
    add(this.#perTenant, tenantId, 1);
    add(this.#perKey, principal.keyId, 1);
    this.#scheduleCheck();
    return stream;
  }

  /**
   * Observes the sender of a call that stays open without a response. Aborts the signal of what it returns, as that of a stream. It is not counted,
   * because such calls have their own limit.
   */
  watch(principal: Principal, tenantId: string): OpenStream {
    const watch = new OpenStream({ principal, tenantId }, this.#limits.maxMs, () => {
      this.#watches.delete(watch);
      this.#stopIfUnused();
    });
    this.#watches.add(watch);
    this.#scheduleCheck();
    return watch;
  }

  /** Ends all streams. */
  [Symbol.dispose](): void {
    this.#isClosed = true;
    for (const stream of this.#all()) stream.end();
    this.#stopIfUnused();
  }

  #all(): readonly OpenStream[] {
    return [...this.#open, ...this.#watches];
  }

  #stopIfUnused(): void {
    if (this.#open.size + this.#watches.size > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #scheduleCheck(): void {
    if (this.#timer !== undefined || this.#isClosed || this.#open.size + this.#watches.size === 0) return;
    this.#timer = setTimeout(() => void this.#check(), CHECK_MS).unref();
  }

  /** Ends the streams of senders that do not count any more. */
  async #check(): Promise<void> {
    const checked = this.#all();
    try {
      const principals = checked.map(({ owner }) => owner.principal);
      const tenantIds = new Set(checked.map(({ owner }) => owner.tenantId));
      const live = await findLive(this.#database.db, principals, tenantIds);
      const now = this.#database.clock.now();
      for (const stream of checked) {
        const { principal, tenantId } = stream.owner;
        const endsAt = (principal.expiresAt ?? now + 1) + (stream.isResumable ? 0 : EXPIRED_CALL_MS);
        const isExpired = endsAt <= now;
        if (isExpired || !live.isLive(principal) || !live.tenants.has(tenantId)) stream.end();
      }
      this.#hasFailed = false;
    } catch (thrown) {
      // The first failure of several: a database that is away would fill the log.
      if (!(this.#hasFailed || this.#isClosed)) this.#onError(thrown);
      this.#hasFailed = true;
    }
    this.#timer = undefined;
    this.#scheduleCheck();
  }
}

function tooMany(whose: "tenant" | "key", limit: number): RequestError {
  return new RequestError("RATE_LIMITED", `This ${whose} may have ${limit} streams open at a time`, {
    retryAfterSeconds: RETRY_SECONDS,
    details: { limit },
  });
}

function add(counts: Map<string, number>, key: string, amount: number): void {
  const count = (counts.get(key) ?? 0) + amount;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
