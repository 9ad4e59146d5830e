// What the capabilities of one call share: who calls, a signal for its end, and what they keep until then.
import { setMaxListeners } from "node:events";
import { types } from "node:util";
import type { CapabilityRequests } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { Redactor } from "../observability/redaction/redactor.ts";
import type { TraceContext } from "../observability/telemetry/trace-context.ts";
import type { PreparedCall, RunningCallObserver } from "../pipeline/prepared-call.ts";
import type { CallMeter } from "../tenants/call-meter.ts";
import { ignoreOutcome } from "../util/host-callback.ts";
import type { CpuAccount } from "../util/time-slicing.ts";
import type { CapabilityContext } from "./capability.ts";

/** For capabilities that still run then. One for all calls: to make one takes as long as a small capability. */
const CALL_IS_OVER = Object.freeze(new ToolError("CANCELLED", "The tool's call is over"));

/** Prefers the async disposer: a value with both takes time to end. */
async function dispose(kept: unknown): Promise<void> {
  const held = (await kept) as object | null | undefined;
  if (typeof held !== "object" || held === null) return;
  if (Symbol.asyncDispose in held) await (held as AsyncDisposable)[Symbol.asyncDispose]();
  // A disposer that is async in spite of its name may reject.
  else if (Symbol.dispose in held) await ((held as Disposable)[Symbol.dispose]() as unknown);
}

/** The calls behind contexts: for capabilities of our own, which may know more than a host's need to. */
const calls = new WeakMap<CapabilityContext, PreparedCall>();

type TraceOf = (url: URL) => TraceContext | undefined;
/** What a request of a capability call tells its server of the trace that it is part of. */
const traces = new WeakMap<CapabilityContext, TraceOf>();

/** The same context within a trace; `traceOf` tells which servers hear of that. */
export function scopedContext(context: CapabilityContext, trace: TraceContext, traceOf: TraceOf): CapabilityContext {
  const scoped = { ...context, ...trace };
  const call = calls.get(context);
  if (call !== undefined) calls.set(scoped, call);
  traces.set(scoped, traceOf);
  return scoped;
}

/** Undefined where the host says nothing of it, or there is none. */
export const traceOf = (context: CapabilityContext, url: URL): TraceContext | undefined => traces.get(context)?.(url);

/** @throws {ToolError} INTERNAL for a context that the sandbox has not made */
export function callOf(context: CapabilityContext): PreparedCall {
  const call = calls.get(context);
  if (call === undefined) throw new ToolError("INTERNAL", "This capability can be used by a tool's call only");
  return call;
}

/** Who looks at the call of a context from outside; undefined where nobody does. */
export const watchOf = (context: CapabilityContext): RunningCallObserver | undefined => calls.get(context)?.watch;

/** What counts the traffic of a context's call; undefined where there is no call. */
export const meterOf = (context: CapabilityContext): CallMeter | undefined => calls.get(context)?.meter;

const payers = new WeakMap<CapabilityContext, CpuAccount>();
/** Whose host time it is that work for the call of a context takes. */
export const payerOf = (context: CapabilityContext): CpuAccount | undefined => payers.get(context);

export interface CallScopeOptions {
  readonly callId: string;
  readonly tenantId: string;
  readonly toolName: string;
  readonly asked: CapabilityRequests;
  readonly log: CapabilityContext["log"];
  readonly call?: PreparedCall | undefined;
  /** Whose host time it is that work for the call takes. */
  readonly payer?: CpuAccount | undefined;
  readonly redactor: Redactor;
  /** Hears of what could not be disposed of. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** Dispose it when the call is over: then its signal aborts, and what was kept for it is let go, the latest first. */
export class CallScope implements Disposable {
  readonly context: CapabilityContext;
  readonly #over = new AbortController();
  readonly #kept = new Map<(context: CapabilityContext) => unknown, unknown>();
  readonly #onError: ((error: unknown) => void) | undefined;

  constructor({ onError, redactor, call, payer, ...facts }: CallScopeOptions) {
    this.#onError = onError;
    // Each request that is under way listens, and a call may have hundreds.
    setMaxListeners(0, this.#over.signal);
    this.context = {
      ...facts,
      signal: this.#over.signal,
      perCall: (open) => this.#perCall(open),
      conceal: (label, value) => redactor.conceal(label, value),
    };
    if (call !== undefined) calls.set(this.context, call);
    if (payer !== undefined) payers.set(this.context, payer);
  }

  #perCall<Kept>(open: (context: CapabilityContext) => Kept): Kept {
    if (this.#over.signal.aborted) throw CALL_IS_OVER;
    if (!this.#kept.has(open)) {
      const kept = open(this.context);
      // Its rejection is reported when the call is over; until then it must not end the process.
      if (types.isPromise(kept)) ignoreOutcome(() => kept);
      this.#kept.set(open, kept);
    }
    return this.#kept.get(open) as Kept;
  }

  /** Nobody waits for what takes time. Twice is a no-op. */
  [Symbol.dispose](): void {
    if (this.#over.signal.aborted) return;
    this.#over.abort(CALL_IS_OVER);
    for (const kept of [...this.#kept.values()].reverse()) {
      ignoreOutcome(
        () => dispose(kept),
        (error) => this.#onError?.(error),
      );
    }
    this.#kept.clear();
  }
}
