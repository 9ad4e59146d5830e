// Defines the types of a prepared call, which the first two stages create and the executors run, and of its observer.

import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { CapabilityContext } from "../capabilities/capability.ts";
import type { CallContext } from "../contract/tool-call.ts";
import type { ChunkQueue } from "../contract/tool-stream.ts";
import type { BinaryAttachments, ToolValue } from "../contract/tool-value.ts";
import type { HookStageName } from "../observability/hooks/hook-events.ts";
import type { TraceContext } from "../observability/telemetry/trace-context.ts";
import type { CallChain } from "../routing/call-chain.ts";
import type { TrackedCall } from "../routing/open-calls.ts";
import type { CallMeter } from "../tenants/call-meter.ts";
import type { TenantPolicy } from "../tenants/tenant-policies.ts";
import type { Clock } from "./clock.ts";

/** Receives where a call is in its executor. */
export interface RunningTimeline {
  queued(): void;
  /** @param at by performance.now() */
  placed(at: number): void;
  started(): void;
}

/** Observes a call while its tool runs: its capability calls, and the span that a host function runs in. */
export interface RunningCallObserver {
  /** The timeline, which is told of what happens before the executor reports it; undefined if the caller did not ask for one. */
  readonly timeline: RunningTimeline | undefined;
  /** Returns whether a hook of this name is installed. */
  hasHook(name: HookStageName): boolean;
  /** The span of the call; undefined without telemetry. */
  readonly span: RunningSpan | undefined;
  /**
   * Runs the hooks for the input of a capability, and returns the input that they leave.
   * @throws {ToolError} the rejection of a hook, or the reason why the call has ended meanwhile
   */
  callCapabilityHooks(capability: string, input: unknown): Promise<{ readonly input: unknown }>;
  /** Receives a report of the tool's own spans, as its worker process has sent it. @param time by the system's monotonic clock in ms */
  toolSpan(time: number, text: string): void;
  /** Runs one capability call. Hooks may modify its input and its output, each before it is validated. */
  capability(
    capability: string,
    input: unknown,
    context: CapabilityContext,
    run: (input: unknown, context: CapabilityContext, coerce: (output: unknown) => Promise<unknown>) => Promise<string>,
  ): Promise<string>;
}

/** The parts of a call's span that a host function uses. */
export interface RunningSpan {
  readonly traceContext: TraceContext;
  /** Runs a function with the span as the active one. */
  within<Value>(run: () => Value): Value;
}

/** A call that has passed the first two stages: everything that an executor needs, already validated. */
export interface PreparedCall {
  readonly callId: string;
  readonly tenantId: string;
  readonly tenant: TenantPolicy;
  readonly definition: ToolDefinition;
  /** Tenant that owns the tool, or undefined for a global tool. */
  readonly toolTenantId: string | undefined;
  /** Arguments as JSON text of the router, as bytes if large. */
  readonly inputText: string | Buffer;
  /** Attached bytes of the arguments. */
  readonly inputBytes?: BinaryAttachments | undefined;
  /** Parsed arguments with their bytes, or undefined if the executor uses text. */
  readonly input: ToolValue | undefined;
  readonly limits: Limits;
  /** Time of admission, by performance.now(). */
  readonly deadlineAt: number;
  /** Parent calls and nested calls. */
  readonly chain: CallChain;
  /** Aborts at the deadline or when the caller cancels. Its reason is the ToolError of the result. */
  readonly signal: AbortSignal;
  /** Clock behind the deadline of the signal. */
  readonly clock?: Pick<Clock, "setPaused" | "leftMs">;
  readonly context: CallContext;
  /** The call as the operator sees it. An executor reports here that the call waits. */
  readonly tracked?: TrackedCall | undefined;
  /** Observer of the call, or undefined without one. */
  readonly observer?: RunningCallObserver | undefined;
  /** Counts the network traffic of the call. */
  readonly meter?: CallMeter | undefined;
  /** Receives chunks, or undefined if the caller does not read a stream. */
  readonly chunks?: ChunkQueue | undefined;
}
