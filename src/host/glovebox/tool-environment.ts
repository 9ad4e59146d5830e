// Resolves a tool's execution environment: its granted capabilities, how the guest sees them, and which worker process runs it.
import type { CapabilityRequests } from "../../sandbox/contract/capability-requests.ts";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import {
  ENGINE_FEATURE_NAMES,
  type EngineFeature,
  isEngineFeature,
  unlimitedFeatures,
} from "../../sandbox/contract/engine-features.ts";
import { ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import type { CapabilityDescriptor, CapabilityDescriptors } from "../../sandbox/protocol/guest-messages.ts";
import { type Capability, descriptorOf } from "../capabilities/capability.ts";
import { logCapability } from "../capabilities/log.ts";
import type { Config } from "../config/options.ts";
import type { ToolInput } from "../config/tool-options.ts";
import type { SandboxTool } from "../executors/sandbox.ts";
import { withRuntimeFeatures } from "../python/python-tool.ts";
import type { Launcher } from "../workers/hardening/launcher.ts";
import { LAYERS } from "../workers/hardening/layers.ts";
import { ownerOfTenant, SHARED_OWNER } from "../workers/scheduling/process-owner.ts";
import type { ToolExecutable } from "./tool-builder.ts";

/** Capabilities and engine features that the host grants to a tool. */
export interface Grants {
  readonly granted: ReadonlyMap<string, Capability>;
  readonly features: readonly EngineFeature[];
}

/** A tool without its executable parts. */
export type ToolEnvironment = Omit<SandboxTool, keyof ToolExecutable | "isolateLifetime">;

/** Size limit of the capability descriptors, which a worker process receives in one message of 64 KiB with the rest of the tool. */
const MAX_SHAPES_BYTES = 24 * 1024;

export class EnvironmentResolver {
  readonly #capabilities: ReadonlyMap<string, Capability>;
  readonly #config: Pick<Config, "placement" | "onError" | "engine">;
  readonly #launcher: Pick<Launcher, "layers">;

  /** @param capabilities all capabilities that can be granted */
  constructor(
    capabilities: readonly Capability[],
    config: Pick<Config, "placement" | "onError" | "engine">,
    launcher: Pick<Launcher, "layers">,
  ) {
    this.#capabilities = new Map(capabilities.map((one) => [one.name, one]));
    this.#config = config;
    this.#launcher = launcher;
  }

  /** Returns the owner of the worker process that runs a tenant's calls. */
  ownerOf(tenantId: string): string {
    return this.#config.placement === "tenant" ? ownerOfTenant(tenantId) : SHARED_OWNER;
  }

  /**
   * Returns the engine features of a tool's isolates: those granted by name, and those of its language. Python's own `eval` does not use
   * V8's, so the option `engine.dynamicCode` does not concern it.
   */
  featuresOf(granted: readonly EngineFeature[], language: "javascript" | "python"): readonly EngineFeature[] {
    if (language === "python") return withRuntimeFeatures(granted);
    return this.#config.engine.dynamicCode ? [...new Set<EngineFeature>([...granted, "stringToCode"])] : granted;
  }

  /**
   * Resolves the grants of a tool by name, whether the tool requests them or not.
   * @throws {ToolError} PARAM_INVALID for an unknown capability; TOOL_UNAVAILABLE for a feature whose memory this machine cannot limit
   */
  grant(names: readonly string[], { overrides }: Pick<ToolInput, "overrides">): Grants {
    const granted = new Map<string, Capability>([[logCapability.name, logCapability]]);
    const features = new Set<EngineFeature>();
    for (const name of [...names, ...Object.keys(overrides?.capabilities ?? {})]) {
      if (isEngineFeature(name)) {
        features.add(name);
        continue;
      }
      const capability = this.#capabilities.get(name);
      if (capability === undefined) {
        const known = [...this.#capabilities.keys(), ...ENGINE_FEATURE_NAMES].join(", ");
        throw new ToolError("PARAM_INVALID", `Unknown capability "${name}". Expected one of: ${known}`);
      }
      granted.set(name, capability);
    }
    this.checkFeatures([...features]);
    return { granted, features: [...features] };
  }

  /**
   * Checks that the operating system limits the memory of features that V8's heap limit does not cover.
   * @throws {ToolError} TOOL_UNAVAILABLE
   */
  checkFeatures(features: readonly EngineFeature[]): void {
    const unlimited = unlimitedFeatures(features);
    if (unlimited.length > 0 && !this.#launcher.layers.has("resource-limits")) {
      throw unavailable(
        "unsupported",
        `${unlimited.join(", ")} can be granted only where the operating system limits a process's memory: ${LAYERS["resource-limits"].get}`,
      );
    }
  }

  of(definition: ToolDefinition, { granted, features }: Grants, requested: CapabilityRequests): ToolEnvironment {
    const denied = Object.keys(requested).filter((name) => !granted.has(name) && !isEngineFeature(name));
    return {
      prewarm: definition.prewarm !== false,
      ownerOf: (tenant) => this.ownerOf(tenant),
      sharesProcesses: this.#config.placement === "shared",
      granted,
      denied,
      descriptors: this.#shapesOf([...granted.keys(), ...denied], definition),
      features,
      onHandlerError: this.#config.onError,
    };
  }

  /** Describes capabilities for the guest. One that was denied looks the same as a granted one. */
  #shapesOf(names: readonly string[], { capabilities = {} }: ToolDefinition): CapabilityDescriptors | undefined {
    const descriptors: Record<string, CapabilityDescriptor> = {};
    for (const name of names) {
      const capability = this.#capabilities.get(name);
      const requested = Object.hasOwn(capabilities, name) ? capabilities[name] : undefined;
      const descriptor = capability === undefined ? undefined : descriptorOf(capability, requested);
      if (descriptor !== undefined) descriptors[name] = descriptor;
    }
    if (Buffer.byteLength(JSON.stringify(descriptors)) > MAX_SHAPES_BYTES) {
      throw new ToolError("PARAM_INVALID", "The capabilities granted to this tool have too many members in total");
    }
    return Object.keys(descriptors).length === 0 ? undefined : descriptors;
  }
}
