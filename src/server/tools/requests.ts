// Lists the requests of a tool's version (capabilities and limits), and compares those of two versions. A version that requests more than the one that is live
// waits for approval.
import { LIMITS, type LimitName, type ToolDefinition } from "../../host/index.ts";

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

const limitOf = ({ limits }: ToolDefinition, name: LimitName): number => limits?.[name] ?? Number.POSITIVE_INFINITY;

/**
 * Compares the requests of two versions.
 * @param live the version that is live; undefined if none is, which requests nothing
 */
export function compareRequests(live: ToolDefinition | undefined, next: ToolDefinition): RequestDiff {
  const before = new Set(live === undefined ? [] : capabilityItems(live));
  const after = new Set(capabilityItems(next));
  const added = [...after].filter((item) => !before.has(item));
  const removed = [...before].filter((item) => !after.has(item));
  // Without a live version there is nothing that limits could be raised from: the tenant's limits apply in any case.
  for (const name of live === undefined ? [] : (Object.keys(LIMITS) as LimitName[])) {
    const [old, raised] = [limitOf(live as ToolDefinition, name), limitOf(next, name)];
    if (raised > old) added.push(`limits.${name}=${Number.isFinite(raised) ? raised : "unlimited"}`);
  }
  return { added, removed };
}
