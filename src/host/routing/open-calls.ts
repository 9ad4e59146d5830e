// The calls that a router has accepted and not answered yet, for the operator: what there is, how far each call is, and its end. A call pays
// for it with one entry in a set; everything else is worked out when a list is requested.
import { randomBytes } from "node:crypto";
import { ToolError } from "../../sandbox/contract/errors.ts";

/**
 * How far a call is: `queued` waits for a slot of its batch, for its turn in a session, or for a worker process; `starting` is in flags,
 * validation and hooks; `running` is in its tool; `ending` has its outcome, which is being validated or shown to hooks.
 */
export type CallState = "queued" | "starting" | "running" | "ending";

/** An accepted call without a result, as `listCalls()` returns it. */
export interface CallInfo {
  /** Unique among all calls of this Glovebox, for `cancelCall()`. */
  readonly id: string;
  /** The id that the caller chose; several calls can have the same one. */
  readonly callId: string;
  readonly toolName: string;
  readonly tenantId: string;
  readonly state: CallState;
  /** When the call was accepted, in ms since 1970. */
  readonly startedAt: number;
  /** Time since then in ms. */
  readonly ageMs: number;
  /** End of its time in ms since 1970, if nothing holds its clock; absent before its time runs. */
  readonly deadlineAt?: number;
  /** `id` of the call that it is nested in. */
  readonly parentId?: string;
  readonly sessionId?: string;
}

/** A call when it is accepted. */
export interface AcceptedCall {
  readonly callId: string;
  readonly toolName: string;
  readonly tenantId: string;
  /** By performance.now(). */
  readonly started: number;
  readonly state: CallState;
  readonly sessionId?: string | undefined;
  readonly parent?: TrackedCall | undefined;
}

/** One accepted call. */
export class TrackedCall {
  readonly #facts: AcceptedCall;
  readonly #calls: OpenCalls;
  readonly #number: number;
  #controller: AbortController | undefined;
  #cancelled: ToolError | undefined;
  toolName: string;
  state: CallState;

  constructor(calls: OpenCalls, number: number, facts: AcceptedCall) {
    this.#calls = calls;
    this.#number = number;
    this.#facts = facts;
    this.toolName = facts.toolName;
    this.state = facts.state;
  }

  get id(): string {
    return `${this.#calls.prefix}-${this.#number}`;
  }

  /** The error that the host has ended it with. */
  get cancelled(): ToolError | undefined {
    return this.#cancelled;
  }

  /** Aborts when the host ends the call. Made when it is first read: a call that never waits outside of its clock needs none. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#cancelled !== undefined) this.#controller.abort(this.#cancelled);
    }
    return this.#controller.signal;
  }

  /** Returns a signal that aborts with the caller's own or when the host ends the call. */
  signalWith(caller: AbortSignal | undefined): AbortSignal {
    return caller === undefined ? this.signal : AbortSignal.any([caller, this.signal]);
  }

  /** Twice is a no-op. */
  cancel(): void {
    if (this.#cancelled !== undefined) return;
    this.#cancelled = new ToolError("CANCELLED", `The call of ${this.toolName} was cancelled by its host`, {
      details: { reason: "cancelled_by_host" },
    });
    this.#controller?.abort(this.#cancelled);
  }

  isOf(tenantId: string | undefined): boolean {
    return tenantId === undefined || this.#facts.tenantId === tenantId;
  }

  hasCallId(callId: string): boolean {
    return this.#facts.callId === callId;
  }

  /** @param leftMs of its time, if that runs */
  toInfo(leftMs: number | undefined): CallInfo {
    const { callId, tenantId, started, sessionId, parent } = this.#facts;
    const ageMs = performance.now() - started;
    const now = Date.now();
    return {
      ...{ id: this.id, callId, toolName: this.toolName, tenantId, state: this.state },
      ...{ startedAt: Math.round(now - ageMs), ageMs },
      ...(leftMs === undefined ? {} : { deadlineAt: Math.round(now + leftMs) }),
      ...(parent === undefined ? {} : { parentId: parent.id }),
      ...(sessionId === undefined ? {} : { sessionId }),
    };
  }
}

export class OpenCalls {
  /** Random, so that no caller's own call id looks like the id of a call by accident. */
  readonly prefix: string = randomBytes(6).toString("hex");
  readonly #open = new Set<TrackedCall>();
  #last = 0;

  /** End it when the call has its result. */
  begin(facts: AcceptedCall): TrackedCall {
    this.#last += 1;
    const call = new TrackedCall(this, this.#last, facts);
    this.#open.add(call);
    return call;
  }

  end(call: TrackedCall): void {
    this.#open.delete(call);
  }

  /** Those of a tenant, or of all tenants, in the order in which they were accepted. */
  of(tenantId: string | undefined): readonly TrackedCall[] {
    return [...this.#open].filter((call) => call.isOf(tenantId));
  }

  /** The call with this id; else all calls of the tenant for which their callers chose this id. */
  find(id: string, tenantId: string): readonly TrackedCall[] {
    const own = this.of(tenantId);
    const exact = own.find((call) => call.id === id);
    return exact === undefined ? own.filter((call) => call.hasCallId(id)) : [exact];
  }
}
