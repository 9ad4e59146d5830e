// Lists the capabilities and limits that a version of a tool asks for, and compares two versions. A version that asks for more than the live
// one waits for approval.
import { type JsonValue, LIMITS, type LimitName, type PartialLimits, type ToolDefinition } from "../../host/index.ts";
import type { ToolVersionRecord } from "../records/tools/tool-versions.ts";

const LIMIT_NAMES = Object.keys(LIMITS) as readonly LimitName[];
/** Defaults of the library for tools in Python, where they differ from those of {@link LIMITS}. */
export const PYTHON_DEFAULTS: PartialLimits = { timeoutMs: 30_000, cpuMs: 10_000, memoryMiB: 256 };

/** Requests of a version, one item each: `kv`, `secrets:api-key`, `fetch:*` (every host that the tenant may reach), `limits.memoryMiB=256`. */
export interface RequestDiff {
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

/** Built-in capabilities that a list narrows: to hosts, to names of secrets, to tools. Without a list, they cover all that the tenant has. */
const NARROWED_BY_LIST: ReadonlySet<string> = new Set(["fetch", "secrets", "tools"]);

const isUnrestricted = (setting: JsonValue): boolean =>
  setting === true ||
  (typeof setting === "object" && !Array.isArray(setting) && Object.keys(setting ?? {}).length === 0);

/** Returns what a setting of a capability requests beyond another one, one item each. `had` is undefined if it was not requested. */
function itemsBeyond(name: string, setting: JsonValue, had: JsonValue | undefined): readonly string[] {
  if (NARROWED_BY_LIST.has(name)) {
    if (!Array.isArray(setting)) return had === undefined || Array.isArray(had) ? [`${name}:*`] : [];
    if (had !== undefined && !Array.isArray(had)) return [];
    const items = setting.filter((item) => had === undefined || !had.includes(item));
    return [...(had === undefined ? [name] : []), ...items.map((item) => `${name}:${String(item)}`)];
  }
  const show = (value: JsonValue): string => (isUnrestricted(value) ? name : `${name}=${JSON.stringify(value)}`);
  // Only the host knows which of two settings of its own capability allows more, so each change waits for approval.
  return had !== undefined && show(had) === show(setting) ? [] : [show(setting)];
}

/** Returns what the capabilities of a definition request beyond those of another one. */
function listBeyond(next: ToolDefinition | undefined, before: ToolDefinition | undefined): readonly string[] {
  const { capabilities = {} } = next ?? {};
  const had = new Map(Object.entries(before?.capabilities ?? {}));
  return Object.entries(capabilities).flatMap(([name, setting]) => itemsBeyond(name, setting, had.get(name)));
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
  const added = [...listBeyond(next.definition, live?.definition)];
  const removed = listBeyond(live?.definition, next.definition);
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
