// The calls that wait for their caller's answers between two requests: found again by a signed, single-use token, bounded, and ended
// when nobody comes back.
import { randomBytes, randomUUID } from "node:crypto";
import { createRequestStateCodec, type RequestStateCodec, type ServerContext } from "@modelcontextprotocol/server";
import { largestOwnerItems } from "./greediest.ts";
import type { OpenToolCall } from "./open-call.ts";

/** So long a caller may take to come back. */
const WAIT_MS = 300_000;
/**
 * Of one caller: each keeps an isolate, and a place among the calls that its tenant may have running. Past that the one that has waited
 * longest gives way: who leaves calls behind is in nobody's way but its own.
 */
const MAX_OF_ONE = 8;
/** Past it, one of whoever has the most of them gives way. */
const MAX_WAITING = 256;

export interface RequestState {
  readonly callId: string;
  readonly round: number;
}

interface Waiting {
  readonly call: OpenToolCall;
  readonly owner: string;
  readonly toolName: string;
  readonly timer: NodeJS.Timeout;
}

export class WaitingCalls implements Disposable {
  readonly #waiting = new Map<string, Waiting>();
  readonly codec: RequestStateCodec<RequestState>;

  /** @param ownerOf whose a request is: a token is of no use to anybody else */
  constructor(ownerOf: (ctx: ServerContext) => string) {
    this.codec = createRequestStateCodec<RequestState>({
      key: randomBytes(32),
      ttlSeconds: WAIT_MS / 1_000,
      bind: ownerOf,
    });
  }

  /** @returns the token that the next request has to bring */
  async keep(call: OpenToolCall, owner: string, toolName: string, ctx: ServerContext): Promise<string> {
    const own = [...this.#waiting].filter(([, one]) => one.owner === owner);
    if (own.length >= MAX_OF_ONE) this.#giveUp(own[0]?.[0]);
    if (this.#waiting.size >= MAX_WAITING) this.#giveUp(largestOwnerItems(this.#waiting)[0]?.[0]);
    const callId = randomUUID();
    const timer = setTimeout(() => this.#giveUp(callId), WAIT_MS).unref();
    this.#waiting.set(callId, { call, owner, toolName, timer });
    return await this.codec.mint({ callId, round: call.round }, ctx);
  }

  /** Once: undefined for a token that was used, is of somebody else, or has expired. */
  take({ callId, round }: RequestState, owner: string, toolName: string): OpenToolCall | undefined {
    const waiting = this.#waiting.get(callId);
    const isOwn = waiting?.owner === owner && waiting.toolName === toolName && waiting.call.round === round;
    if (waiting === undefined || !isOwn) return undefined;
    this.#waiting.delete(callId);
    clearTimeout(waiting.timer);
    return waiting.call;
  }

  #giveUp(callId: string | undefined): void {
    const waiting = callId === undefined ? undefined : this.#waiting.get(callId);
    if (callId === undefined || waiting === undefined) return;
    this.#waiting.delete(callId);
    clearTimeout(waiting.timer);
    waiting.call.cancel();
  }

  [Symbol.dispose](): void {
    for (const callId of [...this.#waiting.keys()]) this.#giveUp(callId);
  }
}
