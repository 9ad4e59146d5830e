// A call between the stages of the pipeline: what the first two stages made of it, and what observes it.

import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { CapabilityContext } from "../capabilities/capability.ts";
import type { ToolContext } from "../contract/tool-call.ts";
import type { ChunkQueue } from "../contract/tool-stream.ts";
import type { BinaryAttachments, ToolValue } from "../contract/tool-value.ts";
import type { AskName } from "../observability/hooks/hooks.ts";
import type { TraceContext } from "../observability/telemetry/trace-context.ts";
import type { CallChain } from "../routing/call-chain.ts";
import type { TrackedCall } from "../routing/open-calls.ts";
import type { CallMeter } from "../tenants/call-meter.ts";
import type { TenantPolicy } from "../tenants/tenant-policies.ts";
import type { Clock } from "./clock.ts";

/** Observes a call while its tool runs: its capability calls, and the span that a host function runs in. */
export interface RunningCallObserver {
  /** Returns whether a hook of this name is installed. */
  asks(name: AskName): boolean;
  /** The span of the call; undefined without telemetry. */
  readonly span: RunningSpan | undefined;
  /**
   * Runs the hooks for the input of a capability, and returns the input that they leave.
   * @throws {ToolError} the rejection of a hook, or the reason why the call has ended meanwhile
   */
  askCapability(capability: string, input: unknown): Promise<{ readonly input: unknown }>;
  /** Runs one capability call: hooks may modify its input before it is validated, and its output before that is. */
  capability(
    capability: string,
    input: unknown,
    context: CapabilityContext,
    run: (input: unknown, context: CapabilityContext, amend: (output: unknown) => Promise<unknown>) => Promise<string>,
  ): Promise<string>;
}

/** The span of a call, as far as a host function needs it. */
export interface RunningSpan {
  readonly traceContext: TraceContext;
  within<Value>(run: () => Value): Value;
}

/** A call that has passed the first two stages: all that an executor needs, and nothing to be checked again. */
export interface PreparedCall {
  readonly callId: string;
  readonly tenantId: string;
  readonly tenant: TenantPolicy;
  readonly definition: ToolDefinition;
  /** Whose tool it is; undefined for everybody's. */
  readonly toolTenantId: string | undefined;
  /** The arguments as JSON: text of the router's own, in bytes where it is large. */
  readonly inputText: string | Buffer;
  /** Bytes that belong into them. */
  readonly inputBytes?: BinaryAttachments | undefined;
  /** The same, parsed and with its bytes; undefined where the executor wants text. */
  readonly input: ToolValue | undefined;
  readonly limits: Limits;
  /** By performance.now(). */
  readonly deadlineAt: number;
  /** The calls that it is nested in, and those nested in it. */
  readonly chain: CallChain;
  /** Aborts at the deadline or when the caller cancels; its reason is the ToolError to answer with. */
  readonly signal: AbortSignal;
  /** What the signal's deadline is kept by. */
  readonly clock?: Pick<Clock, "hold" | "leftMs">;
  readonly context: ToolContext;
  /** The call as the operator sees it: an executor that lets it wait says so. */
  readonly tracked?: TrackedCall | undefined;
  /** Who looks at it from outside; undefined where nobody does. */
  readonly watch?: RunningCallObserver | undefined;
  /** Counts its network traffic. */
  readonly meter?: CallMeter | undefined;
  /** Where its chunks go; undefined where nobody wants them as they come. */
  readonly chunks?: ChunkQueue | undefined;
}
