// Admits a call before its arguments are validated: the policy of its tenant, its quotas, the flag of its tool, and tools that providers
// have not listed yet. All of that may wait for the host, within the call's timeout; what is known already costs a call no `await`.
import { ToolError } from "../../sandbox/contract/errors.ts";
import { LIMITS, type PartialLimits } from "../../sandbox/contract/limits.ts";
import { resolveLimits } from "../config/resolve-limits.ts";
import type { Clocks } from "../pipeline/clock.ts";
import type { NamedContext } from "../pipeline/read-context.ts";
import { noSuchTool } from "../pipeline/validate.ts";
import { type PendingPolicy, policyTooLate } from "../tenants/policy-cache.ts";
import { accountsOf, type QuotaAccount, quotaTooLate } from "../tenants/quotas/tenant-quotas.ts";
import type { TenantPolicies, TenantPolicy } from "../tenants/tenant-policies.ts";
import type { TenantStates } from "../tenants/tenant-states.ts";
import { untilAborted } from "../util/with-abort.ts";
import type { CheckedToolRegistry } from "./checked-registry.ts";
import type { Discoveries } from "./discovery.ts";
import type { TrackedCall } from "./open-calls.ts";
import type { ToolGate } from "./tool-gate.ts";

/** Parts of the router that an admission uses. */
export interface CallAdmissionDependencies {
  readonly registry: CheckedToolRegistry;
  readonly clocks: Clocks;
  readonly tenants: TenantPolicies;
  readonly tenantStates: TenantStates;
  readonly limits: PartialLimits;
  /** Undefined if all tools are enabled for every tenant. */
  readonly gate: ToolGate | undefined;
  readonly discoveries: Discoveries;
}

/** A call to admit. */
export interface CallToAdmit {
  readonly context: NamedContext;
  readonly tracked: TrackedCall;
  /** By performance.now(). */
  readonly started: number;
  /** Limit of the invocation in ms, in addition to that of the context. */
  readonly timeoutMs: number | undefined;
  readonly isNested: boolean;
}

/** A wait for the host, before a call begins. */
interface HostWait<Value> {
  readonly wait: (signal: AbortSignal) => Promise<Value>;
  readonly tooLate: (timeoutMs: number) => ToolError;
}

export class CallAdmission {
  readonly #registry: CheckedToolRegistry;
  readonly #clocks: Clocks;
  readonly #tenants: TenantPolicies;
  readonly #tenantStates: TenantStates;
  readonly #limits: PartialLimits;
  readonly #gate: ToolGate | undefined;
  readonly #discoveries: Discoveries;

  constructor(dependencies: CallAdmissionDependencies) {
    this.#registry = dependencies.registry;
    this.#clocks = dependencies.clocks;
    this.#tenants = dependencies.tenants;
    this.#tenantStates = dependencies.tenantStates;
    this.#limits = dependencies.limits;
    this.#gate = dependencies.gate;
    this.#discoveries = dependencies.discoveries;
  }

  /**
   * Returns the policy of the call's tenant. Synchronous if it is known.
   * @throws {ToolError} INTERNAL if the host's function fails or is too late; TOOL_UNAVAILABLE if the tenant was suspended meanwhile; CANCELLED.
   *   May also reject with one
   */
  policyOf(call: CallToAdmit): TenantPolicy | Promise<TenantPolicy> {
    const found = this.#tenants.of(call.context.tenantId);
    return "wait" in found ? this.#waitForPolicy(call, found) : found;
  }

  async #waitForPolicy(call: CallToAdmit, pending: PendingPolicy<TenantPolicy>): Promise<TenantPolicy> {
    const { tenantId } = call.context;
    const tenant = await this.#waitWithin(call, {
      wait: (signal) => pending.wait(signal),
      tooLate: (withinMs) => policyTooLate(tenantId, withinMs),
    });
    this.#tenantStates.check(tenantId, call.isNested);
    return tenant;
  }

  /**
   * Counts the call on the quotas of its tenant and its caller, and returns them; undefined if they have none. Synchronous if their store is.
   * @throws {ToolError} QUOTA_EXCEEDED; TOOL_UNAVAILABLE if the store failed or is too late, or if the tenant was suspended meanwhile;
   *   CANCELLED. May also reject with one
   */
  countOn(
    call: CallToAdmit,
    tenant: TenantPolicy,
  ): readonly QuotaAccount[] | undefined | Promise<readonly QuotaAccount[]> {
    const quotas = accountsOf(call.context, tenant);
    if (quotas === undefined) return undefined;
    if (call.context.run?.isCounted === true) return quotas;
    const admission = this.#tenantStates.quotas.admit(quotas, call.context.signal);
    return admission === undefined ? quotas : this.#waitForQuotas(call, quotas, admission);
  }

  async #waitForQuotas(
    call: CallToAdmit,
    quotas: readonly QuotaAccount[],
    admission: Promise<void>,
  ): Promise<readonly QuotaAccount[]> {
    await this.#waitWithin(call, { wait: (signal) => untilAborted(admission, signal), tooLate: quotaTooLate });
    this.#tenantStates.check(call.context.tenantId, call.isNested);
    return quotas;
  }

  /**
   * Checks the flag of the tool, and queries the providers that may have a tool of this name if none is registered. Undefined if neither is
   * needed.
   * @throws {ToolError} as a rejection: TOOL_UNAVAILABLE for a tool that is disabled, what a provider throws, or the reason of an abort
   */
  findTool(call: CallToAdmit, toolName: string): Promise<void> | undefined {
    if (this.#gate === undefined && !this.#isUndiscovered(call, toolName)) return undefined;
    return this.#findTool(call, toolName);
  }

  #isUndiscovered({ context }: CallToAdmit, toolName: string): boolean {
    return this.#discoveries.size > 0 && this.#registry.get(toolName, context.tenantId) === undefined;
  }

  async #findTool(call: CallToAdmit, toolName: string): Promise<void> {
    if (this.#gate !== undefined) await this.#checkGate(this.#gate, call);
    if (this.#isUndiscovered(call, toolName)) await this.#discover(toolName, call);
  }

  /** Checks the tool's flag before the registry is read, so that a disabled tool cannot be told from a missing one, nor by its response time. */
  async #checkGate(gate: ToolGate, { context, tracked, timeoutMs }: CallToAdmit): Promise<void> {
    const { tenantId, signal } = context;
    const timeouts = [timeoutMs, context.timeoutMs, this.#limits.timeoutMs].filter((ms) => ms !== undefined);
    const { toolName } = tracked;
    const isOn = await gate.isEnabled(
      { tenantId, toolName },
      {
        timeoutMs: Math.min(...timeouts),
        // Read only if a flag is asynchronous.
        get signal() {
          return tracked.signalWith(signal);
        },
      },
    );
    if (!isOn) throw noSuchTool(toolName);
  }

  /**
   * Waits for a tenant's policy or quota within the call's timeout, as far as it is known without them. The tool has not begun, so a wait
   * that takes too long is a failure of what it waits for.
   */
  async #waitWithin<Value>(
    { context, tracked, started, timeoutMs }: CallToAdmit,
    { wait, tooLate }: HostWait<Value>,
  ): Promise<Value> {
    const { tenantId, signal: caller, timeoutMs: contextMs } = context;
    const { toolName } = tracked;
    // With flags, the length of the wait must not reveal whether the tool exists.
    const tool = this.#gate === undefined ? this.#registry.get(toolName, tenantId) : undefined;
    const configured = [this.#limits, tool?.hostLimits, { timeoutMs: contextMs }, { timeoutMs }];
    const { timeoutMs: withinMs } = resolveLimits(configured, tool?.authorLimits, tool?.defaultLimits);
    using clock = this.#clocks.start({ timeoutMs: withinMs, toolName, caller, tenantId, admittedAt: started, tracked });
    try {
      return await wait(clock.signal);
    } catch (thrown) {
      const { reason } = clock.signal;
      const isTimeout = thrown === reason && reason instanceof ToolError && reason.code === "TOOL_TIMEOUT";
      throw isTimeout ? tooLate(withinMs) : thrown;
    }
  }

  /** Queries the tool providers that may have a tool of an unknown name, within the call's timeout. */
  async #discover(toolName: string, { context, tracked, started, timeoutMs }: CallToAdmit): Promise<void> {
    const { tenantId, signal: caller } = context;
    const providers = this.#discoveries.listWith(toolName, tenantId);
    if (providers.length === 0) return;
    const timeouts = [timeoutMs, context.timeoutMs, this.#limits.timeoutMs].filter((ms) => ms !== undefined);
    const withinMs = Math.min(LIMITS.timeoutMs.max, ...timeouts);
    using clock = this.#clocks.start({ timeoutMs: withinMs, toolName, caller, tenantId, admittedAt: started, tracked });
    const outcomes = await Promise.allSettled(
      providers.map((source) => this.#discoveries.discover(source, tenantId, clock.signal)),
    );
    if (this.#registry.get(toolName, tenantId) !== undefined) return;
    clock.signal.throwIfAborted();
    const failure = outcomes.find((outcome) => outcome.status === "rejected");
    if (failure !== undefined) throw failure.reason;
  }
}
