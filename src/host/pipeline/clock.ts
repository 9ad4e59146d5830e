// Measures the time limit of one call and combines its three external ends (deadline, caller, host) into one signal.
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { TrackedCall } from "../routing/open-calls.ts";
import { LinkedList, type ListSlot } from "../util/linked-list.ts";

export interface Clock extends Disposable {
  /** Aborts with the ToolError of the result. */
  readonly signal: AbortSignal;
  /**
   * Pauses or resumes the clock: a call is paused at a breakpoint, and while it waits for the client of its caller. The clock runs when no
   * holder pauses it.
   * @param holder identifies who pauses it. Default: the inspector
   */
  setPaused(isPaused: boolean, holder?: object): void;
  /** Remaining time of the call in ms. */
  readonly leftMs: number;
}

export interface ClockOptions {
  readonly timeoutMs: number;
  readonly toolName: string;
  /** Signal of the caller. */
  readonly caller: AbortSignal | undefined;
  /** Tenant of the call. */
  readonly tenantId?: string | undefined;
  /** Time of admission, by performance.now(). The time limit starts here. */
  readonly admittedAt: number;
  /** The open call that the host can cancel. */
  readonly tracked?: TrackedCall | undefined;
}

/** The clocks of all calls of a router, which end with the router. With one shared signal, each call would search a list of listeners. */
export class Clocks {
  readonly #running = new LinkedList<CallClock>();
  #isClosed = false;
  /** Tenants whose new calls end at once, with the reason. */
  readonly #closedTenants = new Map<string, ToolError>();

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Starts the clock of a call. Dispose it when the call has its result. */
  start(options: ClockOptions): Clock {
    const clock = new CallClock(options, this.#running);
    if (this.#isClosed) clock.close();
    clock.endIfCancelled();
    if (this.#closedTenants.size > 0) clock.endIfOf(this.#closedTenants);
    return clock;
  }

  /** Cancels a call on behalf of the host. A call has one clock, or two while its arguments are read for hooks. */
  cancel(tracked: TrackedCall): void {
    for (const clock of this.#running.toArray()) if (clock.isOf(tracked)) clock.endIfCancelled();
  }

  /** Returns the remaining time of a call in ms, or undefined before it runs. */
  leftMsOf(tracked: TrackedCall): number | undefined {
    for (const clock of this.#running.toArray()) if (clock.isOf(tracked)) return clock.leftMs;
    return undefined;
  }

  /** Ends all running calls of a tenant, and new ones until the returned value is disposed. */
  closeTenant(tenantId: string, reason: ToolError): Disposable {
    this.#closedTenants.set(tenantId, reason);
    for (const clock of this.#running.toArray()) clock.endIfOf(this.#closedTenants);
    const reopen = (): void => {
      if (this.#closedTenants.get(tenantId) === reason) this.#closedTenants.delete(tenantId);
    };
    return { [Symbol.dispose]: reopen };
  }

  /** Ends all running calls, and new ones. */
  close(): void {
    this.#isClosed = true;
    for (const clock of this.#running.toArray()) clock.close();
  }
}

const INSPECTOR = {};

class CallClock implements Clock {
  readonly #controller = new AbortController();
  readonly #options: ClockOptions;
  readonly #running: LinkedList<CallClock>;
  readonly #slot: ListSlot<CallClock>;
  #timer: NodeJS.Timeout;
  /** Deadline, by performance.now(). */
  #endsAt: number;
  /** Those who pause the clock. Most calls are never paused, and a Set for each of them is garbage. */
  #holders: Set<object> | undefined;
  /** Set while the clock is paused. */
  #leftMs: number | undefined;
  #onCancel: (() => void) | undefined;

  constructor(options: ClockOptions, running: LinkedList<CallClock>) {
    const { timeoutMs, caller, admittedAt } = options;
    this.#options = options;
    this.#running = running;
    if (caller !== undefined) {
      this.#onCancel = () => this.#cancel("was cancelled by its caller");
      if (caller.aborted) this.#onCancel();
      caller.addEventListener("abort", this.#onCancel, { once: true });
    }
    // The timer starts last, so that nothing is left behind if adding the listener throws.
    this.#endsAt = admittedAt + timeoutMs;
    this.#timer = setTimeout(expire, Math.max(0, this.#endsAt - performance.now()), this);
    this.#slot = running.add(this);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  #cancel(how: string): void {
    this.#controller.abort(new ToolError("CANCELLED", `The call of ${this.#options.toolName} ${how}`));
  }

  close(): void {
    this.#cancel("was cancelled because Glovebox was closed");
    // Code that hangs in the call must not keep the host's process alive.
    clearTimeout(this.#timer);
  }

  isOf(tracked: TrackedCall): boolean {
    return this.#options.tracked === tracked;
  }

  endIfCancelled(): void {
    const cancelled = this.#options.tracked?.cancelled;
    if (cancelled !== undefined) this.#controller.abort(cancelled);
  }

  /** Ends the call with the reason given for its tenant, if there is one. */
  endIfOf(tenants: ReadonlyMap<string, ToolError>): void {
    const { tenantId } = this.#options;
    const reason = tenantId === undefined ? undefined : tenants.get(tenantId);
    if (reason !== undefined) this.#controller.abort(reason);
  }

  expire(): void {
    const { toolName, timeoutMs } = this.#options;
    const message = `${toolName} did not finish within ${timeoutMs} ms (limits.timeoutMs) and was stopped`;
    this.#controller.abort(new ToolError("TOOL_TIMEOUT", message, { details: { timeoutMs } }));
  }

  get leftMs(): number {
    return this.#leftMs ?? Math.max(0, this.#endsAt - performance.now());
  }

  setPaused(isPaused: boolean, holder: object = INSPECTOR): void {
    if (!this.#slot.isListed) return;
    this.#holders ??= new Set();
    if (isPaused) this.#holders.add(holder);
    else this.#holders.delete(holder);
    const mustPause = this.#holders.size > 0;
    if (mustPause === (this.#leftMs !== undefined)) return;
    const { leftMs } = this;
    if (mustPause) {
      this.#leftMs = leftMs;
      clearTimeout(this.#timer);
      return;
    }
    this.#endsAt = performance.now() + leftMs;
    this.#timer = setTimeout(expire, leftMs, this);
    this.#leftMs = undefined;
  }

  /** Disposing twice is a no-op. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#running.delete(this.#slot);
    if (this.#onCancel !== undefined) this.#options.caller?.removeEventListener("abort", this.#onCancel);
    this.#onCancel = undefined;
  }
}

const expire = (clock: CallClock): void => clock.expire();
