// What is around a tool in its isolate, whatever it is: what its host grants it by name, how that looks to it, and whose process it is in.
import type { CapabilityRequests, ToolDefinition } from "../../sandbox/contract/definition.ts";
import {
  ENGINE_FEATURE_NAMES,
  type EngineFeature,
  isEngineFeature,
  unlimitedFeatures,
} from "../../sandbox/contract/engine-features.ts";
import { ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import type { CapabilityShape, CapabilityShapes } from "../../sandbox/protocol/guest-messages.ts";
import { type Capability, shapeOf } from "../capabilities/capability.ts";
import { logCapability } from "../capabilities/log.ts";
import type { Config, ToolInput } from "../config/options.ts";
import type { SandboxTool } from "../executors/sandbox.ts";
import { withRuntimeFeatures } from "../python/python-tool.ts";
import type { Launcher } from "../workers/hardening/launcher.ts";
import { LAYERS } from "../workers/hardening/layers.ts";
import type { ToolExecutable } from "./tool-builder.ts";

export interface Grants {
  readonly granted: ReadonlyMap<string, Capability>;
  readonly features: readonly EngineFeature[];
}

/** A tool, but for what is run of it. */
export type ToolEnvironment = Omit<SandboxTool, keyof ToolExecutable | "isolation">;

/** A worker is told them in one message of 64 KiB, with everything else of the tool. */
const MAX_SHAPES_BYTES = 24 * 1024;

export class EnvironmentResolver {
  readonly #capabilities: ReadonlyMap<string, Capability>;
  readonly #config: Pick<Config, "placement" | "onError" | "engine">;
  readonly #launcher: Pick<Launcher, "layers">;

  /** @param capabilities all that there are to grant */
  constructor(
    capabilities: readonly Capability[],
    config: Pick<Config, "placement" | "onError" | "engine">,
    launcher: Pick<Launcher, "layers">,
  ) {
    this.#capabilities = new Map(capabilities.map((one) => [one.name, one]));
    this.#config = config;
    this.#launcher = launcher;
  }

  /** Whose process a tenant's calls run in. */
  ownerOf(tenantId: string): string {
    // Quoted, so that what is put behind it belongs to no other tenant's name.
    return this.#config.placement === "tenant" ? `tenant:${JSON.stringify(tenantId)}` : "shared";
  }

  /**
   * Returns the features that a tool's isolates have: those granted by name, and those of its language. Python's own `eval` needs none of
   * V8's, so the option `engine.dynamicCode` does not concern it.
   */
  featuresOf(granted: readonly EngineFeature[], language: "javascript" | "python"): readonly EngineFeature[] {
    if (language === "python") return withRuntimeFeatures(granted);
    return this.#config.engine.dynamicCode ? [...new Set<EngineFeature>([...granted, "stringToCode"])] : granted;
  }

  /**
   * What the host grants a tool by name, whether it asks for it or not.
   * @throws {ToolError} PARAM_INVALID for a capability that there is not; TOOL_UNAVAILABLE for what this machine cannot limit
   */
  grant(names: readonly string[], { definition }: Pick<ToolInput, "definition">): Grants {
    const granted = new Map<string, Capability>([[logCapability.name, logCapability]]);
    const features = new Set<EngineFeature>();
    for (const name of [...names, ...Object.keys(definition?.capabilities ?? {})]) {
      if (isEngineFeature(name)) {
        features.add(name);
        continue;
      }
      const capability = this.#capabilities.get(name);
      if (capability === undefined) {
        const known = [...this.#capabilities.keys(), ...ENGINE_FEATURE_NAMES].join(", ");
        throw new ToolError("PARAM_INVALID", `There is no capability named "${name}" to grant; known are: ${known}`);
      }
      granted.set(name, capability);
    }
    this.refuseUnlimited([...features]);
    return { granted, features: [...features] };
  }

  /** What passes V8's memory limit is given only where the operating system has one. @throws {ToolError} TOOL_UNAVAILABLE */
  refuseUnlimited(features: readonly EngineFeature[]): void {
    const unlimited = unlimitedFeatures(features);
    if (unlimited.length > 0 && !this.#launcher.layers.has("resource-limits")) {
      throw unavailable(
        "unsupported",
        `${unlimited.join(", ")} can be granted only where the operating system limits a process's memory: ${LAYERS["resource-limits"].get}`,
      );
    }
  }

  of(definition: ToolDefinition, { granted, features }: Grants, asked: CapabilityRequests): ToolEnvironment {
    const denied = Object.keys(asked).filter((name) => !granted.has(name) && !isEngineFeature(name));
    return {
      prewarm: definition.prewarm !== false,
      ownerOf: (tenant) => this.ownerOf(tenant),
      sharesProcesses: this.#config.placement === "shared",
      granted,
      denied,
      shapes: this.#shapesOf([...granted.keys(), ...denied], definition),
      features,
      onHandlerError: this.#config.onError,
    };
  }

  /** A capability that was not granted looks as it would if it had been. */
  #shapesOf(names: readonly string[], { capabilities = {} }: ToolDefinition): CapabilityShapes | undefined {
    const shapes: Record<string, CapabilityShape> = {};
    for (const name of names) {
      const capability = this.#capabilities.get(name);
      const asked = Object.hasOwn(capabilities, name) ? capabilities[name] : undefined;
      const shape = capability === undefined ? undefined : shapeOf(capability, asked);
      if (shape !== undefined) shapes[name] = shape;
    }
    if (Buffer.byteLength(JSON.stringify(shapes)) > MAX_SHAPES_BYTES) {
      throw new ToolError("PARAM_INVALID", "The capabilities of this tool have too many members together");
    }
    return Object.keys(shapes).length === 0 ? undefined : shapes;
  }
}
