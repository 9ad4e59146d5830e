// Keeps tool calls that wait for their client's answers between two requests (protocol revision 2026-07-28). A signed, single-use token
// identifies a call. The number of waiting calls is limited, and a call is cancelled if the client does not return in time.
import { randomBytes, randomUUID } from "node:crypto";
import { createRequestStateCodec, type RequestStateCodec, type ServerContext } from "@modelcontextprotocol/server";
import { largestOwnerItems } from "../http/largest-owner-items.ts";
import type { OpenToolCall } from "./open-call.ts";

/** Longest time in ms that a call waits for its client's next request. */
const WAIT_MS = 300_000;
/**
 * Largest number of waiting calls of one caller. Each of them occupies an isolate and one of its tenant's concurrency slots. For a further
 * call, the caller's longest waiting call is cancelled, so that abandoned calls affect only their own caller.
 */
const MAX_PER_CALLER = 8;
/**
 * Largest number of waiting calls. For a further call, one of the tenant with the most waiting calls, and of its caller
 * with the most, is cancelled.
 */
const MAX_WAITING = 256;

export interface WaitingRequestState {
  readonly callId: string;
  readonly round: number;
}

/** What ends a waiting call early. No request is open that would notice it. */
export interface CallerValidity {
  /** When the caller's credentials no longer allow a call to run, in ms since 1970. */
  readonly endsAtMs?: number | undefined;
  readonly watch?: CallerWatch | undefined;
}

/** Observes whether a caller's credentials are revoked. */
export interface CallerWatch {
  /** Aborts when they are revoked, and after `end()`. */
  readonly signal: AbortSignal;
  end(): void;
}

interface Waiting {
  readonly call: OpenToolCall;
  readonly owner: string;
  readonly toolName: string;
  readonly timer: NodeJS.Timeout;
  readonly watch: CallerWatch | undefined;
}

export class CallsAwaitingInput implements Disposable {
  readonly #waiting = new Map<string, Waiting>();
  readonly #validityOf: (ctx: ServerContext) => CallerValidity;
  readonly codec: RequestStateCodec<WaitingRequestState>;

  /**
   * @param ownerOf returns the owner of a request; a token is valid for the owner that it was created for only
   * @param validityOf returns how long the caller of a request may have a call
   */
  constructor(
    ownerOf: (ctx: ServerContext) => string,
    validityOf: (ctx: ServerContext) => CallerValidity = () => ({}),
  ) {
    this.#validityOf = validityOf;
    this.codec = createRequestStateCodec<WaitingRequestState>({
      key: randomBytes(32),
      ttlSeconds: WAIT_MS / 1_000,
      bind: ownerOf,
    });
  }

  /** Adds a call. @returns the token that the client's next request must contain */
  async keep(call: OpenToolCall, owner: string, toolName: string, ctx: ServerContext): Promise<string> {
    const own = [...this.#waiting].filter(([, waiting]) => waiting.owner === owner);
    if (own.length >= MAX_PER_CALLER) this.#cancel(own[0]?.[0]);
    if (this.#waiting.size >= MAX_WAITING) this.#cancel(largestOwnerItems(this.#waiting, owner)[0]?.[0]);
    const callId = randomUUID();
    const { endsAtMs = Number.POSITIVE_INFINITY, watch } = this.#validityOf(ctx);
    const cancel = (): void => this.#cancel(callId);
    const timer = setTimeout(cancel, Math.min(WAIT_MS, endsAtMs - Date.now())).unref();
    this.#waiting.set(callId, { call, owner, toolName, timer, watch });
    watch?.signal.addEventListener("abort", cancel, { once: true });
    return await this.codec.mint({ callId, round: call.round }, ctx);
  }

  /** Removes and returns a call; undefined for a token that was used, belongs to another caller, or has expired. */
  take({ callId, round }: WaitingRequestState, owner: string, toolName: string): OpenToolCall | undefined {
    const waiting = this.#waiting.get(callId);
    const isOwn = waiting?.owner === owner && waiting.toolName === toolName && waiting.call.round === round;
    if (waiting === undefined || !isOwn) return undefined;
    this.#remove(callId, waiting);
    return waiting.call;
  }

  #cancel(callId: string | undefined): void {
    const waiting = callId === undefined ? undefined : this.#waiting.get(callId);
    if (callId === undefined || waiting === undefined) return;
    this.#remove(callId, waiting);
    waiting.call.cancel();
  }

  #remove(callId: string, { timer, watch }: Waiting): void {
    this.#waiting.delete(callId);
    clearTimeout(timer);
    watch?.end();
  }

  [Symbol.dispose](): void {
    for (const callId of [...this.#waiting.keys()]) this.#cancel(callId);
  }
}
