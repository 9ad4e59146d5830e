// The clock of one call: one signal for the three ends of it that are not its own.
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { TrackedCall } from "../routing/open-calls.ts";

export interface Clock extends Disposable {
  /** Aborts with the ToolError that the call is to be answered with. */
  readonly signal: AbortSignal;
  /**
   * Stands still while anybody holds it: for a call that stands at a breakpoint, or waits for an answer of whoever made it.
   * @param holder who does; whoever inspects, unless stated
   */
  hold(isHeld: boolean, holder?: object): void;
  /** What is left of the call's time. */
  readonly leftMs: number;
}

export interface ClockOptions {
  readonly timeoutMs: number;
  readonly toolName: string;
  /** The caller's own signal. */
  readonly caller: AbortSignal | undefined;
  /** Whose call it is. */
  readonly tenantId?: string | undefined;
  /** When the call was admitted, by performance.now(): its time runs from there. */
  readonly admittedAt: number;
  /** The call that it is of, which the host may end. */
  readonly tracked?: TrackedCall | undefined;
}

/** The clocks of all calls in a router, which end with it. A signal of the router's would have to look through a list at each call. */
export class Clocks {
  readonly #running = new Set<CallClock>();
  #isClosed = false;
  /** Tenants whose calls end as soon as they have a clock, and why. */
  readonly #closedTenants = new Map<string, ToolError>();

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Dispose it when the call has its result. */
  start(options: ClockOptions): Clock {
    const clock = new CallClock(options, this.#running);
    if (this.#isClosed) clock.close();
    clock.endIfCancelled();
    if (this.#closedTenants.size > 0) clock.endIfOf(this.#closedTenants);
    return clock;
  }

  /** Ends what runs of a call that the host has cancelled. A call has one clock, or two while its arguments are read for hooks. */
  cancel(tracked: TrackedCall): void {
    for (const clock of this.#running) if (clock.isOf(tracked)) clock.endIfCancelled();
  }

  /** What is left of a call's time; undefined before it runs. */
  leftMsOf(tracked: TrackedCall): number | undefined {
    for (const clock of this.#running) if (clock.isOf(tracked)) return clock.leftMs;
    return undefined;
  }

  /** Ends every call of a tenant that is running, and those to come until the returned value is disposed. */
  closeTenant(tenantId: string, reason: ToolError): Disposable {
    this.#closedTenants.set(tenantId, reason);
    for (const clock of [...this.#running]) clock.endIfOf(this.#closedTenants);
    const reopen = (): void => {
      if (this.#closedTenants.get(tenantId) === reason) this.#closedTenants.delete(tenantId);
    };
    return { [Symbol.dispose]: reopen };
  }

  /** Ends every call that is running, and those to come. */
  close(): void {
    this.#isClosed = true;
    for (const clock of [...this.#running]) clock.close();
  }
}

const INSPECTOR = {};

class CallClock implements Clock {
  readonly #controller = new AbortController();
  readonly #options: ClockOptions;
  readonly #running: Set<CallClock>;
  #timer: NodeJS.Timeout;
  /** By performance.now(). */
  #endsAt: number;
  readonly #holders = new Set<object>();
  /** Set while it is held. */
  #leftMs: number | undefined;
  #onCancel: (() => void) | undefined;

  constructor(options: ClockOptions, running: Set<CallClock>) {
    const { timeoutMs, caller, admittedAt } = options;
    this.#options = options;
    this.#running = running;
    if (caller !== undefined) {
      this.#onCancel = () => this.#cancel("was cancelled by its caller");
      if (caller.aborted) this.#onCancel();
      caller.addEventListener("abort", this.#onCancel, { once: true });
    }
    // Last, so that a signal that cannot be listened to leaves nothing behind.
    this.#endsAt = admittedAt + timeoutMs;
    this.#timer = setTimeout(expire, Math.max(0, this.#endsAt - performance.now()), this);
    running.add(this);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  #cancel(how: string): void {
    this.#controller.abort(new ToolError("CANCELLED", `The call of ${this.#options.toolName} ${how}`));
  }

  close(): void {
    this.#cancel("was cancelled because Glovebox was closed");
    // Whatever still hangs in the call keeps the host's process alive no longer.
    clearTimeout(this.#timer);
  }

  isOf(tracked: TrackedCall): boolean {
    return this.#options.tracked === tracked;
  }

  endIfCancelled(): void {
    const cancelled = this.#options.tracked?.cancelled;
    if (cancelled !== undefined) this.#controller.abort(cancelled);
  }

  /** Ends the call with the reason that is given for its tenant, if there is one. */
  endIfOf(tenants: ReadonlyMap<string, ToolError>): void {
    const { tenantId } = this.#options;
    const reason = tenantId === undefined ? undefined : tenants.get(tenantId);
    if (reason !== undefined) this.#controller.abort(reason);
  }

  expire(): void {
    const { toolName, timeoutMs } = this.#options;
    const message = `${toolName} did not finish within ${timeoutMs} ms and was stopped`;
    this.#controller.abort(new ToolError("TOOL_TIMEOUT", message, { details: { timeoutMs } }));
  }

  get leftMs(): number {
    return this.#leftMs ?? Math.max(0, this.#endsAt - performance.now());
  }

  hold(isHeld: boolean, holder: object = INSPECTOR): void {
    if (!this.#running.has(this)) return;
    if (isHeld) this.#holders.add(holder);
    else this.#holders.delete(holder);
    const mustStand = this.#holders.size > 0;
    if (mustStand === (this.#leftMs !== undefined)) return;
    const { leftMs } = this;
    if (mustStand) {
      this.#leftMs = leftMs;
      clearTimeout(this.#timer);
      return;
    }
    this.#endsAt = performance.now() + leftMs;
    this.#timer = setTimeout(expire, leftMs, this);
    this.#leftMs = undefined;
  }

  /** Twice is a no-op. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#running.delete(this);
    if (this.#onCancel !== undefined) this.#options.caller?.removeEventListener("abort", this.#onCancel);
    this.#onCancel = undefined;
  }
}

const expire = (clock: CallClock): void => clock.expire();
