// Lists the tools that a tenant may call: those of the registry and of tool providers, if their flags are on, with the limits of their calls.
import { LIMITS, type Limits, type PartialLimits } from "../../sandbox/contract/limits.ts";
import { resolveLimits } from "../config/resolve-limits.ts";
import type { Clocks } from "../pipeline/clock.ts";
import type { TenantPolicy } from "../tenants/tenant-policies.ts";
import type { TenantStates } from "../tenants/tenant-states.ts";
import type { CheckedToolRegistry } from "./checked-registry.ts";
import type { Discoveries } from "./discovery.ts";
import { type ListedTool, toListedTool } from "./listed-tool.ts";
import type { RegisteredTool } from "./registry.ts";
import type { ToolGate } from "./tool-gate.ts";

export interface ToolListingDependencies {
  readonly registry: CheckedToolRegistry;
  readonly tenantStates: TenantStates;
  readonly clocks: Clocks;
  readonly discoveries: Discoveries;
  /** Undefined if all tools are enabled for every tenant. */
  readonly gate: ToolGate | undefined;
  /** Limits of the host. */
  readonly limits: PartialLimits;
}

export class ToolListing {
  readonly #dependencies: ToolListingDependencies;

  constructor(dependencies: ToolListingDependencies) {
    this.#dependencies = dependencies;
  }

  /** Returns the tools that are registered and known to be enabled, sorted by name. Waits for nothing. */
  known(tenantId: string): readonly RegisteredTool[] {
    const { registry, gate } = this.#dependencies;
    const tools = registry.list(tenantId);
    if (gate === undefined) return tools;
    return tools.filter(({ definition }) => gate.isEnabledNow({ tenantId, toolName: definition.name }));
  }

  /**
   * Returns the tenant's tools and the global tools, sorted by name, after it has queried the tool providers. Tools of a provider that fails are
   * left out.
   * @throws {ToolError} TOOL_UNAVAILABLE while the tenant is being deleted
   */
  async find(tenantId: string): Promise<readonly RegisteredTool[]> {
    const { tenantStates, discoveries, clocks, limits, registry, gate } = this.#dependencies;
    // Querying a server would start it again for a tenant that is being deleted.
    tenantStates.checkAdding(tenantId);
    if (discoveries.size > 0 && !clocks.isClosed) {
      const timeoutMs = Math.min(LIMITS.timeoutMs.max, limits.timeoutMs ?? LIMITS.timeoutMs.max);
      using clock = clocks.start({ timeoutMs, toolName: "tools", caller: undefined, admittedAt: performance.now() });
      const providers = discoveries.listFor(tenantId);
      await Promise.allSettled(providers.map((source) => discoveries.discover(source, tenantId, clock.signal)));
    }
    const tools = registry.list(tenantId);
    if (gate === undefined) return tools;
    const answers = await Promise.all(
      tools.map(({ definition }) => gate.isEnabled({ tenantId, toolName: definition.name })),
    );
    return tools.filter((_, index) => answers[index] === true);
  }

  /** Returns the tools of {@link find}, each with its metadata. */
  async describe(tenantId: string, policy: TenantPolicy): Promise<readonly ListedTool[]> {
    return (await this.find(tenantId)).map((tool) => toListedTool(tool, this.limitsOf(tool, policy)));
  }

  /** Returns the limits of a tenant's calls of a tool. */
  limitsOf({ hostLimits, authorLimits, defaultLimits }: RegisteredTool, { configuredLimits }: TenantPolicy): Limits {
    return resolveLimits([this.#dependencies.limits, configuredLimits, hostLimits], authorLimits, defaultLimits);
  }
}
