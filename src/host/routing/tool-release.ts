// A release: several versions of a tool under one name. Chooses the version that a call runs.
import { createHash } from "node:crypto";
import { unavailable } from "../../sandbox/contract/errors.ts";
import type { CallContext } from "../contract/tool-call.ts";
import { digestOfTool } from "../pipeline/tool-digest.ts";
import type { RegisteredTool, ToolVersions, VersionChoice } from "./registry.ts";

/** A version of a tool with its share of the calls. */
export interface WeightedVersion {
  readonly version: string;
  /** Share of the calls relative to the other versions. A version with weight 0 runs only if a call names it. */
  readonly weight: number;
  readonly tool: RegisteredTool;
}

/** Bytes of the hash that places a session among the versions: enough for weights of up to 1,000,000. */
const HASH_BYTES = 6;

/** Returns a number from 0 to 1 (exclusive) that is always the same for this session and tool. */
function positionOf(sessionId: string, toolName: string): number {
  const digest = createHash("sha256")
    .update(JSON.stringify([toolName, sessionId]))
    .digest();
  return digest.readUIntBE(0, HASH_BYTES) / 2 ** (8 * HASH_BYTES);
}

export class ToolRelease implements ToolVersions {
  readonly #versions: readonly WeightedVersion[];
  readonly #byName: ReadonlyMap<string, RegisteredTool>;
  readonly #totalWeight: number;

  /** @param versions in a fixed order: a version later in the list keeps its sessions when its weight grows */
  constructor(versions: readonly WeightedVersion[]) {
    this.#versions = versions;
    this.#byName = new Map(versions.map(({ version, tool }) => [version, tool]));
    this.#totalWeight = versions.reduce((sum, { weight }) => sum + weight, 0);
  }

  get tools(): readonly RegisteredTool[] {
    return this.#versions.map(({ tool }) => tool);
  }

  /** The version with the largest weight, which is listed for the tool. */
  get main(): RegisteredTool {
    return this.#largest.tool;
  }

  get mainVersion(): string {
    return this.#largest.version;
  }

  get #largest(): WeightedVersion {
    return largestOf(this.#versions) as WeightedVersion;
  }

  get(version: string): RegisteredTool | undefined {
    return this.#byName.get(version);
  }

  choose(toolName: string, { toolVersion, sessionId, toolDigest }: VersionChoice): string {
    if (toolVersion !== undefined) {
      if (this.#byName.has(toolVersion)) return toolVersion;
      throw noSuchVersion(toolName, toolVersion);
    }
    const chosen = this.#chooseByWeight(toolName, sessionId);
    const hasDigest = ({ tool }: WeightedVersion): boolean => digestOfTool(tool) === toolDigest;
    if (toolDigest === undefined || hasDigest(chosen)) return chosen.version;
    // If no version has the digest, the validate stage rejects the call.
    return (largestOf(this.#versions.filter(hasDigest)) ?? chosen).version;
  }

  #chooseByWeight(toolName: string, sessionId: string | undefined): WeightedVersion {
    const position = sessionId === undefined ? Math.random() : positionOf(sessionId, toolName);
    let left = position * this.#totalWeight;
    for (const weighted of this.#versions) {
      left -= weighted.weight;
      if (left < 0) return weighted;
    }
    throw unavailable("not_found", `No version of the tool ${JSON.stringify(toolName)} is released`, {
      details: { toolName },
    });
  }
}

/** Returns the version with the largest weight, the first one of several; undefined for no versions. */
function largestOf([first, ...rest]: readonly WeightedVersion[]): WeightedVersion | undefined {
  return rest.reduce((largest, one) => (one.weight > (largest?.weight ?? 0) ? one : largest), first);
}

const noSuchVersion = (toolName: string, toolVersion: string): Error =>
  unavailable(
    "not_found",
    `The tool ${JSON.stringify(toolName.slice(0, 128))} has no version ${JSON.stringify(toolVersion.slice(0, 128))} that can be called`,
    { details: { toolName: toolName.slice(0, 128), toolVersion: toolVersion.slice(0, 128) } },
  );

/** Returns the version of a tool that a call runs; the tool itself if it has no versions. */
export function versionOf(tool: RegisteredTool | undefined, version: string | undefined): RegisteredTool | undefined {
  return tool?.release === undefined || version === undefined ? tool : tool.release.get(version);
}

/**
 * Returns the context with the version that the call runs. A version is chosen once for each call.
 * @throws {ToolError} TOOL_UNAVAILABLE if the call names a version that the tool does not have
 */
export function withVersion<Context extends CallContext>(
  context: Context,
  toolName: string,
  tool: RegisteredTool | undefined,
): Context {
  if (tool?.release !== undefined) return { ...context, toolVersion: tool.release.choose(toolName, context) };
  if (context.toolVersion !== undefined && tool !== undefined) throw noSuchVersion(toolName, context.toolVersion);
  return context;
}
