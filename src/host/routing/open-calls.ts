// Tracks the calls that a router has accepted and that have no result yet, so that an operator can list and cancel them. A call costs one
// entry in a set; everything else is computed when a list is requested.
import { randomBytes } from "node:crypto";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { TimelineSpan } from "../contract/timeline-span.ts";
import type { NestedCall } from "../contract/tool-call.ts";
import { LinkedList, type ListSlot } from "../util/linked-list.ts";

/**
 * State of a call. `queued`: waits for a slot of its batch, for an earlier call of its session, or for a worker process. `starting`: flags,
 * validation and hooks. `running`: in its tool. `ending`: the outcome is being validated or passed to hooks.
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
  /** Deadline in ms since 1970, unless its clock is paused. Absent before its timeout starts. */
  readonly deadlineAt?: number;
  /** `id` of the call that made this one. */
  readonly parentId?: string;
  readonly sessionId?: string;
}

/** Properties of a call when it is accepted. */
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

/** What is known of a call that runs. */
export interface CallProgress {
  /** Returns the spans so far; undefined if the caller did not ask for a timeline. @param max of each kind, the newest */
  timelineSoFar(max: number): readonly TimelineSpan[] | undefined;
}

/** One accepted call. */
export class TrackedCall {
  readonly #accepted: AcceptedCall;
  readonly #calls: OpenCalls;
  readonly #number: number;
  #controller: AbortController | undefined;
  #cancelled: ToolError | undefined;
  toolName: string;
  state: CallState;
  /** Its place in the list of open calls. */
  slot: ListSlot<TrackedCall> | undefined;
  /** Undefined for a call that nobody observes. */
  progress: CallProgress | undefined;
  /** The calls that it has made and that have ended. Undefined before its tool is known. */
  chain: { readonly calls: readonly NestedCall[] | undefined } | undefined;

  constructor(calls: OpenCalls, number: number, accepted: AcceptedCall) {
    this.#calls = calls;
    this.#number = number;
    this.#accepted = accepted;
    this.toolName = accepted.toolName;
    this.state = accepted.state;
  }

  get id(): string {
    return `${this.#calls.prefix}-${this.#number}`;
  }

  /** The error that the host cancelled the call with. */
  get cancelled(): ToolError | undefined {
    return this.#cancelled;
  }

  /** Aborts when the host cancels the call. Created when it is first read, because most calls do not need it. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#cancelled !== undefined) this.#controller.abort(this.#cancelled);
    }
    return this.#controller.signal;
  }

  /** Returns a signal that aborts with the caller's signal, or when the host cancels the call. */
  signalWith(caller: AbortSignal | undefined): AbortSignal {
    return caller === undefined ? this.signal : AbortSignal.any([caller, this.signal]);
  }

  /** Cancels the call. Has no effect the second time. */
  cancel(): void {
    if (this.#cancelled !== undefined) return;
    this.#cancelled = new ToolError("CANCELLED", `The call of ${this.toolName} was cancelled by its host`, {
      details: { reason: "cancelled_by_host" },
    });
    this.#controller?.abort(this.#cancelled);
  }

  isOf(tenantId: string | undefined): boolean {
    return tenantId === undefined || this.#accepted.tenantId === tenantId;
  }

  hasCallId(callId: string): boolean {
    return this.#accepted.callId === callId;
  }

  get parent(): TrackedCall | undefined {
    return this.#accepted.parent;
  }

  get callId(): string {
    return this.#accepted.callId;
  }

  /** Time in ms since the call was accepted. */
  get ageMs(): number {
    return performance.now() - this.#accepted.started;
  }

  /** @param leftMs remaining time in ms, if its timeout has started */
  toInfo(leftMs: number | undefined): CallInfo {
    const { callId, tenantId, sessionId, parent } = this.#accepted;
    const ageMs = this.ageMs;
    const now = Date.now();
    return {
      id: this.id,
      callId,
      toolName: this.toolName,
      tenantId,
      state: this.state,
      startedAt: Math.round(now - ageMs),
      ageMs,
      ...(leftMs === undefined ? {} : { deadlineAt: Math.round(now + leftMs) }),
      ...(parent === undefined ? {} : { parentId: parent.id }),
      ...(sessionId === undefined ? {} : { sessionId }),
    };
  }
}

export class OpenCalls {
  /** Random, so that a call id that a caller chose does not equal the id of a call by accident. */
  readonly prefix: string = randomBytes(6).toString("hex");
  readonly #open = new LinkedList<TrackedCall>();
  #last = 0;

  /** Tracks a call until `end`. */
  begin(accepted: AcceptedCall): TrackedCall {
    this.#last += 1;
    const call = new TrackedCall(this, this.#last, accepted);
    call.slot = this.#open.add(call);
    return call;
  }

  end(call: TrackedCall): void {
    if (call.slot !== undefined) this.#open.delete(call.slot);
  }

  /** Returns the calls of a tenant, or of all tenants, oldest first. */
  of(tenantId: string | undefined): readonly TrackedCall[] {
    return this.#open.toArray().filter((call) => call.isOf(tenantId));
  }

  /** Returns the call with this id, or else all calls of the tenant whose callers chose this id. */
  find(id: string, tenantId: string): readonly TrackedCall[] {
    const own = this.of(tenantId);
    const exact = own.find((call) => call.id === id);
    return exact === undefined ? own.filter((call) => call.hasCallId(id)) : [exact];
  }
}
