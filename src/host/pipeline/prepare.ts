// Stage 2: resolves the limits of the call and starts its clock. The lowest configured limit applies.
import type { Limits, PartialLimits } from "../../sandbox/contract/limits.ts";
import { resolveLimits } from "../config/resolve-limits.ts";
import type { CallContext } from "../contract/tool-call.ts";
import type { ChunkQueue } from "../contract/tool-stream.ts";
import type { CallObserver } from "../observability/call-observer.ts";
import { CallChain } from "../routing/call-chain.ts";
import type { TrackedCall } from "../routing/open-calls.ts";
import type { RegisteredTool } from "../routing/registry.ts";
import { CallMeter } from "../tenants/call-meter.ts";
import type { TenantPolicy } from "../tenants/tenant-policies.ts";
import type { Clock, Clocks } from "./clock.ts";
import type { PreparedCall } from "./prepared-call.ts";
import type { ValidatedCall } from "./validate.ts";

/** A prepared call and its clock. Dispose it when the call has its result. */
class Preparation implements Disposable {
  readonly call: PreparedCall;
  readonly #clock: Clock;

  constructor(call: PreparedCall, clock: Clock) {
    this.call = call;
    this.#clock = clock;
  }

  [Symbol.dispose](): void {
    this.#clock[Symbol.dispose]();
  }
}

/** Dependencies that the router passes for every call. */
export interface PrepareOptions {
  /** The host's configured limits. */
  readonly limits: PartialLimits;
  /** Policy of the calling tenant. */
  readonly tenant: TenantPolicy;
  /** Clocks in which the call's own clock is started. */
  readonly clocks: Clocks;
  /** Receives the chunks of the call, if the caller reads a stream. */
  readonly chunks?: ChunkQueue | undefined;
  /** Time of admission, by performance.now(). Default: now. */
  readonly admittedAt?: number;
  /** The parent call, for a nested call. */
  readonly parent?: CallChain | undefined;
  /** The call as the operator sees it. */
  readonly tracked?: TrackedCall | undefined;
  /** Observer of the call. */
  readonly observer?: CallObserver | undefined;
}

interface LimitSources {
  readonly host: PartialLimits;
  readonly tenant: TenantPolicy;
  readonly contextMs: number | undefined;
  readonly timeoutMs: number | undefined;
}

/** The limits of each tool's last call. Most calls of a tool have the same ones. */
const lastLimits = new WeakMap<RegisteredTool, LimitSources & { readonly limits: Limits }>();

function limitsOf(tool: RegisteredTool, sources: LimitSources): Limits {
  const { host, tenant, contextMs, timeoutMs } = sources;
  const last = lastLimits.get(tool);
  const isSame = last?.host === host && last.tenant === tenant;
  if (isSame && last.contextMs === contextMs && last.timeoutMs === timeoutMs) return last.limits;
  const limits = resolveLimits(
    [host, tenant.configuredLimits, tool.hostLimits, { timeoutMs: contextMs }, { timeoutMs }],
    tool.authorLimits,
    tool.defaultLimits,
  );
  lastLimits.set(tool, { ...sources, limits });
  return limits;
}

/** Resolves the limits of a call and starts its clock. */
export function startCall(
  tool: RegisteredTool,
  context: CallContext,
  { limits: hostLimits, tenant, clocks, tracked, admittedAt = performance.now() }: PrepareOptions,
  timeoutMs: number | undefined,
): { readonly limits: Limits; readonly clock: Clock; readonly deadlineAt: number } {
  const limits = limitsOf(tool, { host: hostLimits, tenant, contextMs: context.timeoutMs, timeoutMs });
  const { timeoutMs: ownMs } = limits;
  const { name: toolName } = tool.definition;
  const { tenantId, signal: caller } = context;
  const clock = clocks.start({ timeoutMs: ownMs, toolName, caller, tenantId, admittedAt, tracked });
  return { limits, clock, deadlineAt: admittedAt + ownMs };
}

/** Prepares a validated call for its executor. @param timeoutMs limit of the invocation, in addition to that of the context */
export function prepareCall(
  validated: ValidatedCall,
  options: PrepareOptions,
  timeoutMs: number | undefined,
): Preparation {
  const { tool, context } = validated;
  const { limits, clock, deadlineAt } = startCall(tool, context, options, timeoutMs);
  const { callId, tenantId, inputText, inputBytes, input } = validated;
  const chain = new CallChain(callId, tool.definition.name, limits, options.parent);
  chain.clock = clock;
  chain.numbers = context.run?.nestedCallNumbers;
  chain.tracked = options.tracked;
  if (options.tracked !== undefined) options.tracked.chain = chain;
  const call: PreparedCall = {
    callId,
    tenantId,
    tenant: options.tenant,
    definition: tool.definition,
    toolTenantId: tool.tenantId,
    inputText,
    inputBytes,
    input,
    limits,
    deadlineAt,
    chain,
    signal: clock.signal,
    clock,
    context,
    meter: new CallMeter(),
    chunks: options.chunks,
    observer: options.observer,
    tracked: options.tracked,
  };
  return new Preparation(call, clock);
}
