// The state that the capabilities of one call share: the call's context, a signal that aborts at its end, and values that are kept until
// then.
import { setMaxListeners } from "node:events";
import { types } from "node:util";
import type { CapabilityRequests } from "../../sandbox/contract/capability-requests.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { Redactor } from "../observability/redaction/call-redactor.ts";
import type { TraceContext } from "../observability/telemetry/trace-context.ts";
import type { CapabilityUse } from "../observability/timeline.ts";
import type { PreparedCall, RunningCallObserver } from "../pipeline/prepared-call.ts";
import type { CallMeter } from "../tenants/call-meter.ts";
import { ignoreOutcome } from "../util/host-callback.ts";
import type { CpuAccount } from "../util/time-slicing.ts";
import type { CapabilityContext } from "./capability.ts";

/** Abort reason for capabilities that still run when their call ends. One instance for all calls, since creating an error is slow. */
const CALL_ENDED = Object.freeze(new ToolError("CANCELLED", "The tool call has ended"));

/** Disposes a value. Prefers the async disposer of a value that has both. */
async function dispose(kept: unknown): Promise<void> {
  const held = (await kept) as object | null | undefined;
  if (typeof held !== "object" || held === null) return;
  if (Symbol.asyncDispose in held) await (held as AsyncDisposable)[Symbol.asyncDispose]();
  // A function under `Symbol.dispose` may still return a promise that rejects.
  else if (Symbol.dispose in held) await ((held as Disposable)[Symbol.dispose]() as unknown);
}

/** The call of each context. Built-in capabilities use more of a call than the public context contains. */
const calls = new WeakMap<CapabilityContext, PreparedCall>();

type TraceOf = (url: URL) => TraceContext | undefined;
/** Returns the trace context that a request to each URL carries, by the context of its capability call. */
const traces = new WeakMap<CapabilityContext, TraceOf>();

/** Returns a copy of the context within a span. `traceOf` returns the trace headers for a URL, if its server may receive them. */
export function scopedContext(context: CapabilityContext, trace: TraceContext, traceOf: TraceOf): CapabilityContext {
  const scoped = { ...context, ...trace };
  const call = calls.get(context);
  if (call !== undefined) calls.set(scoped, call);
  traces.set(scoped, traceOf);
  return scoped;
}

const uses = new WeakMap<CapabilityContext, CapabilityUse>();

/** Returns a copy of the context for one use of a capability, which {@link useOf} returns. */
export function describedContext(context: CapabilityContext, use: CapabilityUse): CapabilityContext {
  const described = { ...context };
  const call = calls.get(context);
  if (call !== undefined) calls.set(described, call);
  const trace = traces.get(context);
  if (trace !== undefined) traces.set(described, trace);
  uses.set(described, use);
  return described;
}

/** Returns where a capability describes what it was used for; undefined without a timeline. */
export const useOf = (context: CapabilityContext): CapabilityUse | undefined => uses.get(context);

/** Returns the trace context to send to the URL; undefined without telemetry, or if the server may not receive it. */
export const traceOf = (context: CapabilityContext, url: URL): TraceContext | undefined => traces.get(context)?.(url);

/** Returns the call of a context. @throws {ToolError} INTERNAL for a context that belongs to no tool call */
export function callOf(context: CapabilityContext): PreparedCall {
  const call = calls.get(context);
  if (call === undefined) throw new ToolError("INTERNAL", "This capability can only be used in a tool call");
  return call;
}

/** Returns the observer of a context's call, if there is one. */
export const observerOf = (context: CapabilityContext): RunningCallObserver | undefined => calls.get(context)?.observer;

/** Whether the context's call continues a durable run that an earlier attempt has begun. */
export const isContinuedRun = (context: CapabilityContext): boolean =>
  calls.get(context)?.context.run?.isContinued === true;

/** Returns the meter that counts the network traffic of a context's call, if there is one. */
export const meterOf = (context: CapabilityContext): CallMeter | undefined => calls.get(context)?.meter;

const cpuAccounts = new WeakMap<CapabilityContext, CpuAccount>();
/** Returns the CPU account that is charged for host work on behalf of a context's call. */
export const cpuAccountOf = (context: CapabilityContext): CpuAccount | undefined => cpuAccounts.get(context);

export interface CallScopeOptions {
  readonly callId: string;
  readonly tenantId: string;
  readonly toolName: string;
  readonly requested: CapabilityRequests;
  readonly log: CapabilityContext["log"];
  readonly call?: PreparedCall | undefined;
  /** CPU account that is charged for host work on behalf of the call. */
  readonly cpuAccount?: CpuAccount | undefined;
  readonly redactor: Redactor;
  /** Receives errors of values that could not be disposed. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** The lifetime of one call. The caller disposes it when the call ends: its signal aborts, and kept values are disposed in reverse order. */
export class CallScope implements Disposable {
  readonly context: CapabilityContext;
  readonly #abort = new AbortController();
  readonly #kept = new Map<(context: CapabilityContext) => unknown, unknown>();
  readonly #onError: ((error: unknown) => void) | undefined;

  constructor({ onError, redactor, call, cpuAccount, ...metadata }: CallScopeOptions) {
    this.#onError = onError;
    // Every pending request adds a listener, and a call may have hundreds of requests.
    setMaxListeners(0, this.#abort.signal);
    this.context = {
      ...metadata,
      signal: this.#abort.signal,
      perCall: (open) => this.#perCall(open),
      redact: (label, value) => redactor.addSecret(label, value),
    };
    if (call !== undefined) calls.set(this.context, call);
    if (cpuAccount !== undefined) cpuAccounts.set(this.context, cpuAccount);
  }

  #perCall<Kept>(open: (context: CapabilityContext) => Kept): Kept {
    if (this.#abort.signal.aborted) throw CALL_ENDED;
    if (!this.#kept.has(open)) {
      const kept = open(this.context);
      // A rejection is reported when the call ends. Until then it must not end the process as an unhandled one.
      if (types.isPromise(kept)) ignoreOutcome(() => kept);
      this.#kept.set(open, kept);
    }
    return this.#kept.get(open) as Kept;
  }

  /** Disposes the kept values, without waiting for async disposers. A second call is a no-op. */
  [Symbol.dispose](): void {
    if (this.#abort.signal.aborted) return;
    this.#abort.abort(CALL_ENDED);
    for (const kept of [...this.#kept.values()].reverse()) {
      ignoreOutcome(
        () => dispose(kept),
        (error) => this.#onError?.(error),
      );
    }
    this.#kept.clear();
  }
}
