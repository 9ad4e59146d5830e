// Lists the capabilities and limits that a version of a tool asks for, and compares two versions. A version that asks for more than the live
// one waits for approval.
import { LIMITS, type LimitName, type PartialLimits, type ToolDefinition } from "../../host/index.ts";
import type { ToolVersionRecord } from "../records/tool-versions.ts";

const LIMIT_NAMES = Object.keys(LIMITS) as readonly LimitName[];
/** Defaults of the library for tools in Python, where they differ from those of {@link LIMITS}. */
export const PYTHON_DEFAULTS: PartialLimits = { timeoutMs: 30_000, cpuMs: 10_000, memoryMiB: 256 };

/** Requests of a version, one item each: `fetch`, `secrets:api-key`, `limits.memoryMiB=256`. */
export interface RequestDiff {
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

function capabilityItems({ capabilities = {} }: ToolDefinition): readonly string[] {
  return Object.entries(capabilities).flatMap(([name, settings]) => {
    if (Array.isArray(settings)) {
      return [name, ...settings.map((item) => `${name}:${typeof item === "string" ? item : JSON.stringify(item)}`)];
    }
    const isEmpty = settings === true || (typeof settings === "object" && Object.keys(settings ?? {}).length === 0);
    return isEmpty ? [name] : [name, `${name}=${JSON.stringify(settings)}`];
  });
}

/** What a version requests: its definition, and the limits that its upload has set. */
type RequestingVersion = Pick<ToolVersionRecord, "definition" | "language"> & {
  readonly settings: Pick<ToolVersionRecord["settings"], "limits">;
};

/** Returns the limits that a version states itself: of its author and of its upload, the lower one applies. */
export function ownLimits({ definition, settings }: RequestingVersion): PartialLimits {
  const limits: { [Name in LimitName]?: number } = {};
  for (const name of LIMIT_NAMES) {
    const stated = [definition.limits?.[name], settings.limits?.[name]].filter((value) => value !== undefined);
    if (stated.length > 0) limits[name] = Math.min(...stated);
  }
  return limits;
}

/**
 * Compares the requests of two versions.
 * @param live the version that is live; undefined if none is, which requests nothing
 * @param configured limits of the server and of the tenant. A limit that a version does not set is one of these, or the default
 */
export function compareRequests(
  live: RequestingVersion | undefined,
  next: RequestingVersion,
  configured: readonly (PartialLimits | undefined)[],
): RequestDiff {
  const before = new Set(live === undefined ? [] : capabilityItems(live.definition));
  const after = new Set(capabilityItems(next.definition));
  const added = [...after].filter((item) => !before.has(item));
  const removed = [...before].filter((item) => !after.has(item));
  // Without a live version there is nothing that limits could be raised from: the tenant's limits apply in any case.
  if (live === undefined) return { added, removed };
  // As the library resolves them: configured limits replace the default, and the author can only lower the result.
  const inEffect = ({ definition, settings, language }: RequestingVersion, name: LimitName): number => {
    const set = [...configured, settings.limits].map((limits) => limits?.[name]).filter((value) => value !== undefined);
    const byKind = language === "python" ? PYTHON_DEFAULTS[name] : undefined;
    const byHost = set.length > 0 ? Math.min(...set) : (byKind ?? LIMITS[name].default);
    return Math.min(byHost, definition.limits?.[name] ?? byHost);
  };
  for (const name of LIMIT_NAMES) {
    const raised = inEffect(next, name);
    if (raised > inEffect(live, name)) added.push(`limits.${name}=${raised}`);
  }
  return { added, removed };
}
