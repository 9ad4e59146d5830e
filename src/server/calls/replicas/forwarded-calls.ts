// Passes calls on to the replica that has their session, and returns what it says. A call runs at most once: as long as the other replica has not
// received it, the call can go elsewhere, and afterwards it has ended in any case.
import { ToolError } from "../../../host/index.ts";
import { ApprovalConflict } from "../../approvals/approval-service.ts";
import type { OpenDatabase } from "../../database/open-database.ts";
import { pause } from "../../operation/background-work.ts";
import { findCall, type WholeCall } from "../../records/calls/calls.ts";
import type { SessionHome } from "../../records/calls/session-homes.ts";
import type { DeclineReason, PeerCallMessage } from "../../replicas/peers/messages.ts";
import { type PeerClient, type PeerExchange, PeerUnreachable } from "../../replicas/peers/peer-client.ts";
import { IdempotencyConflict } from "../call-request.ts";
import { inputTextOf } from "../input-text.ts";
import type { DirectAnswer, DirectCall } from "../running/direct-call.ts";
import type { LostCalls } from "./lost-calls.ts";
import { declinedError, isEvent, type LastMessage, passOn, toThrown, toWholeCall } from "./peer-answers.ts";
import { elsewhere } from "./session-homes.ts";

/** Time in ms for which the home of a session is tried. One that is gone does not count as alive after 8 s. */
const TRY_MS = 12_000;
const RETRY_MS = 200;
/** Time in ms for which a home that lives, but could not be reached, is not tried again. */
const UNREACHABLE_MS = 30_000;
/** Calls that one replica passes on at the same time, and those of one tenant. */
const MAX_CALLS = 1_024;
const MAX_TENANT_CALLS = 256;
const RETRY_AFTER_MS = 1_000;

/** The outcome of passing a call on: an answer, an error before anything of it has run, or nothing yet. */
export type ForwardOutcome = DirectAnswer | { readonly error: ToolError } | "not sent";

export interface ForwardedCallsDependencies {
  readonly database: OpenDatabase;
  readonly peers: Pick<PeerClient, "open">;
  readonly lost: LostCalls;
  /** Called when a live replica cannot be reached. */
  readonly onError: (error: unknown) => void;
}

export class ForwardedCalls implements AsyncDisposable {
  readonly #dependencies: ForwardedCallsDependencies;
  readonly #open = new Map<string, Forwarding>();
  /** Replicas that could not be reached, with the time until which they are not tried, by performance.now(). */
  readonly #unreachable = new Map<string, number>();
  #onIdle: (() => void) | undefined;

  constructor(dependencies: ForwardedCallsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Begins to pass a call on. Dispose it when the call has ended. */
  begin(call: DirectCall): Forwarding {
    const { tenant_id: tenantId, id } = call.row;
    let ofTenant = 0;
    for (const { call: other } of this.#open.values()) if (other.row.tenant_id === tenantId) ofTenant += 1;
    const isFull = this.#open.size >= MAX_CALLS || ofTenant >= MAX_TENANT_CALLS;
    const forwarding = new Forwarding(this.#dependencies, call, {
      isFull,
      isUnreachable: (replicaId) => (this.#unreachable.get(replicaId) ?? 0) > performance.now(),
      onUnreachable: (replicaId) => this.#note(replicaId),
      onEnd: () => {
        this.#open.delete(id);
        if (this.#open.size === 0) this.#onIdle?.();
      },
    });
    if (!isFull) this.#open.set(id, forwarding);
    return forwarding;
  }

  #note(replicaId: string): void {
    const now = performance.now();
    for (const [id, until] of this.#unreachable) if (until < now) this.#unreachable.delete(id);
    this.#unreachable.set(replicaId, now + UNREACHABLE_MS);
    const why = "lives, and cannot be reached from here: calls of its sessions fail with session_elsewhere";
    this.#dependencies.onError(new Error(`The replica ${replicaId} ${why}. Set replicaUrl, or let replicas connect`));
  }

  /** Cancels a call that no other replica has received yet. Returns false if there is none. */
  cancel(tenantId: string, id: string): boolean {
    const forwarding = this.#open.get(id);
    return forwarding !== undefined && forwarding.call.row.tenant_id === tenantId && forwarding.cancel();
  }

  /** Waits until the calls have ended, and ends the others after a while. @param drainMs longest wait in ms */
  async drain(drainMs: number): Promise<void> {
    if (this.#open.size === 0) return;
    const idle = new AbortController();
    this.#onIdle = () => idle.abort();
    await pause(drainMs, idle.signal);
    for (const forwarding of this.#open.values()) forwarding.stop("shutting_down");
    if (this.#open.size > 0) await pause(RETRY_AFTER_MS, idle.signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain(0);
  }
}

interface ForwardingDependencies {
  /** Whether too many calls are passed on. */
  readonly isFull: boolean;
  /** Returns whether a replica could not be reached just before. */
  readonly isUnreachable: (replicaId: string) => boolean;
  readonly onUnreachable: (replicaId: string) => void;
  readonly onEnd: () => void;
}

/** A call that is passed on. */
export class Forwarding implements Disposable {
  readonly call: DirectCall;
  readonly #dependencies: ForwardedCallsDependencies;
  readonly #own: ForwardingDependencies;
  readonly #begun = performance.now();
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  #tries = 0;
  #isSent = false;
  #reason: string | undefined;

  constructor(dependencies: ForwardedCallsDependencies, call: DirectCall, own: ForwardingDependencies) {
    this.#dependencies = dependencies;
    this.call = call;
    this.#own = own;
    const { signal } = call.caller;
    this.#signal = signal === undefined ? this.#stop.signal : AbortSignal.any([signal, this.#stop.signal]);
  }

  /** Cancels the call if it was not sent yet. */
  cancel(): boolean {
    if (this.#isSent) return false;
    this.stop("cancelled_by_host");
    return true;
  }

  /** Ends the call. @param reason `details.reason` of its error */
  stop(reason: string): void {
    this.#reason ??= reason;
    this.#stop.abort();
  }

  [Symbol.dispose](): void {
    this.#own.onEnd();
  }

  /**
   * Sends the call to the replica that has its session, and waits for its end.
   * @throws {IdempotencyConflict} and others that the call has failed with there before it had a record
   */
  async send(home: SessionHome): Promise<ForwardOutcome> {
    const { row } = this.call;
    const { isFull, isUnreachable } = this.#own;
    if (isFull) return { error: overloaded() };
    const { replicaId, url } = home;
    if (url === null || isUnreachable(replicaId)) return { error: elsewhere(row) };
    let opened: PeerExchange | DeclineReason;
    try {
      opened = await this.#dependencies.peers.open({ replicaId, url }, this.#signal);
    } catch (thrown) {
      if (!(thrown instanceof PeerUnreachable)) throw thrown;
      return await this.#later(replicaId);
    }
    if (typeof opened === "string") return await this.#declined(opened);
    using exchange = opened;
    const end = (): void => exchange[Symbol.dispose]();
    this.#signal.addEventListener("abort", end, { once: true });
    try {
      if (this.#signal.aborted) return { error: this.#cancelled() };
      this.#isSent = true;
      return await this.#follow(exchange);
    } finally {
      this.#signal.removeEventListener("abort", end);
    }
  }

  async #follow(exchange: PeerExchange): Promise<ForwardOutcome> {
    const { row } = this.call;
    const { lost, database } = this.#dependencies;
    const last = await this.#last(exchange);
    if (last === undefined)
      return { ended: this.#signal.aborted ? lost.failed(this.call, this.#cancelled()) : await lost.settle(this.call) };
    exchange.finish();
    if ("ended" in last) return last;
    switch (last.type) {
      case "declined":
        return await this.#declined(last.reason);
      case "waiting": {
        const waiting = await findCall(database.db, row.tenant_id, last.callId);
        return waiting === undefined ? { ended: await lost.settle(this.call) } : { waiting };
      }
      case "conflict":
        if (last.because === "approval") throw new ApprovalConflict(last.message);
        throw new IdempotencyConflict(last.because === "other_request");
      case "thrown":
        // A stream has begun, so it ends with a result.
        if (this.call.sink !== undefined) return { ended: await lost.settle(this.call) };
        throw toThrown(last);
    }
  }

  /** Passes on the events of the call. Returns what ends it; undefined if the other replica is gone. */
  async #last(exchange: PeerExchange): Promise<LastMessage | { readonly ended: WholeCall } | undefined> {
    const { row, request, sink } = this.call;
    const input = request.input === undefined ? [] : [inputTextOf(request.input)];
    try {
      for await (const { message, texts } of exchange.call(this.#toMessage(), input)) {
        if (message.type === "result") return { ended: toWholeCall(message, texts, row, request) };
        if (!isEvent(message)) return message;
        passOn(message, texts, sink);
      }
    } catch {
      // Invalid messages too: the call has no other result.
    }
    return undefined;
  }

  #toMessage(): PeerCallMessage {
    const { row, request } = this.call;
    const { toolName, version, alias, timeoutMs, idempotencyKey, approvedBy } = request;
    return {
      type: "call",
      at: this.#dependencies.database.clock.now(),
      mode: row.mode === "stream" ? "stream" : "sync",
      callId: row.id,
      tenantId: row.tenant_id,
      keyId: row.key_id,
      toolName,
      sessionId: row.session_id ?? "",
      version,
      alias,
      timeoutMs,
      idempotencyKey,
      approvedBy,
    };
  }

  async #declined(reason: DeclineReason): Promise<ForwardOutcome> {
    const error = declinedError(reason, this.call.row);
    return error === undefined ? await this.#later(undefined) : { error };
  }

  /** Waits before the session is claimed again. @param unreachable id of a replica that could not be reached */
  async #later(unreachable: string | undefined): Promise<ForwardOutcome> {
    this.#isSent = false;
    if (performance.now() - this.#begun > TRY_MS) {
      if (unreachable !== undefined) this.#own.onUnreachable(unreachable);
      return { error: elsewhere(this.call.row) };
    }
    this.#tries += 1;
    // The first time, a connection that was kept open may have ended.
    if (this.#tries > 1) await pause(RETRY_MS, this.#signal);
    return this.#signal.aborted ? { error: this.#cancelled() } : "not sent";
  }

  #cancelled(): ToolError {
    const { toolName } = this.call.request;
    const how = this.#reason === undefined ? "by its caller" : "by its host";
    return new ToolError("CANCELLED", `The call of ${toolName} was cancelled ${how}`, {
      ...(this.#reason === undefined ? {} : { details: { reason: this.#reason } }),
    });
  }
}

const overloaded = (): ToolError =>
  new ToolError("OVERLOADED", "Too many calls of sessions that other replicas have run at the same time", {
    details: { retryAfterMs: RETRY_AFTER_MS },
  });
