// Keeps the tools of tenants in the Glovebox: registers the releases of a tool when it is first called, and again when they have changed. The
// code of a version is read from the database when the version first runs, so a tool that is not called costs only a database row.

import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import {
  type Glovebox,
  type ReleaseVersion,
  type StoredCode,
  type ToolBundle,
  type ToolDefinition,
  type ToolError,
  unavailable,
} from "../../host/index.ts";
import { TOOL_NAME_PATTERN } from "../../sandbox/contract/tool-name.ts";
import type { Db } from "../database/open-database.ts";
import { readBoundedPage } from "../records/bounded-page.ts";
import { listAlias, listReleases, type ReleaseRecord } from "../records/tools/releases.ts";
import {
  findDefinitions,
  findVersion,
  listReadyVersions,
  readVersionFile,
  type SizedDefinition,
  type ToolVersionRecord,
} from "../records/tools/tool-versions.ts";

/** The alias that calls without an alias run. */
export const LIVE = "live";
/** Time in ms after which the tools of a tenant that makes no calls are removed from memory. */
const IDLE_MS = 10 * 60_000;
const SWEEP_MS = 60_000;

/** Maximum number of versions without a release that a tool keeps when its releases have changed. One that is named later is read again. */
const MAX_EXTRA = 16;

interface LoadedTool {
  /** Revision of the tenant when the tool was read. */
  readonly revision: number;
  readonly releases: readonly ReleaseRecord[];
  /** Versions that calls have named although no alias has them. */
  readonly extra: readonly ToolVersionRecord[];
  /** Whether a version keeps the state of sessions. */
  readonly hasSessions?: boolean;
}

interface LoadedTenant {
  readonly id: string;
  readonly tools: Map<string, LoadedTool>;
  /** Latest revision that was seen. */
  revision: number;
  /** Revision for which all tools are registered. */
  wholeRevision: number;
  usedAt: number;
}

interface Choice {
  readonly alias?: string | undefined;
  readonly version?: number | undefined;
  readonly sessionId?: string | undefined;
}

type FindVersion = (toolName: string, version: number) => Promise<ToolVersionRecord | undefined>;

const notFound = (toolName: string, what: string): ToolError =>
  unavailable("not_found", `The tool ${JSON.stringify(toolName)} ${what}`, { details: { toolName } });

/** Returns a number from 0 to 1 (exclusive): random, or always the same for one session. */
function positionOf(sessionId: string | undefined, name: string): number {
  if (sessionId === undefined) return Math.random();
  const digest = createHash("sha256")
    .update(JSON.stringify([name, sessionId]))
    .digest();
  return digest.readUInt32BE(0) / 2 ** 32;
}

/** Longest time in ms that the registration of many tools runs without a pause. */
const LONGEST_RUN_MS = 10;

interface PageRow {
  readonly toolName: string;
  /** Undefined for a version that cannot be called. */
  readonly found: SizedDefinition | undefined;
}

export interface ToolPage {
  readonly definitions: readonly ToolDefinition[];
  /** Name after which the next page begins; undefined if there is none. */
  readonly next: string | undefined;
}

export class TenantTools implements Disposable {
  readonly #glovebox: Glovebox;
  readonly #db: Db;
  readonly #tenants = new Map<string, LoadedTenant>();
  /** The latest load of each tool, and of each tenant as a whole. Loads of one key run one after the other. */
  readonly #loads = new Map<string, Promise<void>>();
  readonly #sweeper: NodeJS.Timeout;

  constructor(glovebox: Glovebox, db: Db) {
    this.#glovebox = glovebox;
    this.#db = db;
    this.#sweeper = setInterval(() => this.#sweep(), SWEEP_MS);
    this.#sweeper.unref();
  }

  /**
   * Registers a tool unless it is registered as of this revision.
   * @param revision of the tenant, as the request has read it
   */
  async ensureTool(tenantId: string, revision: number, toolName: string): Promise<void> {
    // A client over MCP and a tool can name anything. The database has no such tool, and cannot look for every text.
    if (!TOOL_NAME_PATTERN.test(toolName)) return;
    const tenant = this.#tenantOf(tenantId, revision);
    const isKnown = (): boolean => (tenant.tools.get(toolName)?.revision ?? 0) >= revision;
    if (isKnown()) return;
    await this.#once(JSON.stringify([tenantId, toolName]), isKnown, async () => {
      const releases = await listReleases(this.#db, { tenantId, toolName });
      const find: FindVersion = (name, version) => findVersion(this.#db, { tenantId, toolName: name }, version);
      const extra = await this.#keepExtra(tenant, toolName, releases, find);
      await this.#register(tenant, toolName, { revision, releases, extra }, find);
    });
  }

  /** Lists what clients may call: the definition of each tool's live version with the largest share, by name. Registers nothing. */
  async listDefinitions(
    tenantId: string,
    page: { readonly after?: string | undefined; readonly limit: number },
  ): Promise<ToolPage> {
    const releases = await listAlias(this.#db, { tenantId, alias: LIVE }, page);
    const chosen = releases.map(({ toolName, versions: [first, ...rest] }) => {
      const largest = rest.reduce((most, one) => (one.weight > (most?.weight ?? 0) ? one : most), first);
      return { toolName, version: largest?.version ?? 0 };
    });
    let from = 0;
    const { rows, hasMore } = await readBoundedPage(
      page.limit,
      async (_last: PageRow | undefined, limit): Promise<readonly PageRow[]> => {
        const part = chosen.slice(from, from + limit);
        from += limit;
        const byName = await findDefinitions(this.#db, tenantId, part);
        return part.map(({ toolName }) => ({ toolName, found: byName.get(toolName) }));
      },
      ({ found }) => found?.bytes ?? 0,
    );
    const isLast = !hasMore && releases.length < page.limit;
    return {
      definitions: rows.flatMap(({ found }) => found?.definition ?? []),
      next: isLast ? undefined : rows.at(-1)?.toolName,
    };
  }

  /** Registers all tools of a tenant, for a list of them. */
  async ensureAll(tenantId: string, revision: number): Promise<void> {
    const tenant = this.#tenantOf(tenantId, revision);
    const isKnown = (): boolean => tenant.wholeRevision >= revision;
    if (isKnown()) return;
    await this.#once(JSON.stringify([tenantId]), isKnown, async () => {
      const byTool = Map.groupBy(await listReleases(this.#db, { tenantId }), ({ toolName }) => toolName);
      const versions = new Map<string, ToolVersionRecord>();
      for (const version of await listReadyVersions(this.#db, tenantId)) {
        versions.set(`${version.version} ${version.toolName}`, version);
      }
      const find: FindVersion = async (name, version) => versions.get(`${version} ${name}`);
      let resumedAt = performance.now();
      for (const toolName of new Set([...tenant.tools.keys(), ...byTool.keys()])) {
        if ((tenant.tools.get(toolName)?.revision ?? 0) >= revision) continue;
        const releases = byTool.get(toolName) ?? [];
        const extra = await this.#keepExtra(tenant, toolName, releases, find);
        await this.#register(tenant, toolName, { revision, releases, extra }, find);
        // Thousands of tools must not hold up the requests of others.
        if (performance.now() - resumedAt < LONGEST_RUN_MS) continue;
        await setImmediate();
        resumedAt = performance.now();
      }
      tenant.wholeRevision = revision;
    });
  }

  /**
   * Returns the version that a call must name: undefined for the alias `live`, whose weights the Glovebox applies itself. The tool must be
   * registered.
   * @throws {ToolError} TOOL_UNAVAILABLE (`details.reason: "not_found"`)
   */
  async choose(
    tenantId: string,
    toolName: string,
    { alias = LIVE, version, sessionId }: Choice,
  ): Promise<string | undefined> {
    if (version !== undefined) {
      await this.#addVersion(tenantId, toolName, version);
      return String(version);
    }
    if (alias === LIVE) return undefined;
    const release = this.#tenants
      .get(tenantId)
      ?.tools.get(toolName)
      ?.releases.find((one) => one.alias === alias);
    if (release === undefined) throw notFound(toolName, `has no release ${JSON.stringify(alias)}`);
    let left = release.versions.reduce((sum, { weight }) => sum + weight, 0) * positionOf(sessionId, toolName);
    const chosen = release.versions.find(({ weight }) => {
      left -= weight;
      return left < 0;
    });
    return String((chosen ?? release.versions[0])?.version);
  }

  /** Returns whether a version of a registered tool keeps the state of sessions. */
  hasSessions(tenantId: string, toolName: string): boolean {
    return this.#tenants.get(tenantId)?.tools.get(toolName)?.hasSessions === true;
  }

  /** Returns a release as it was last read. */
  releaseOf(tenantId: string, toolName: string, alias: string): ReleaseRecord | undefined {
    const tool = this.#tenants.get(tenantId)?.tools.get(toolName);
    return tool?.releases.find((release) => release.alias === alias);
  }

  /** Removes the tools of a tenant from the Glovebox. */
  forget(tenantId: string): void {
    const tenant = this.#tenants.get(tenantId);
    this.#tenants.delete(tenantId);
    for (const toolName of tenant?.tools.keys() ?? []) this.#glovebox.removeTool(toolName, { tenantId });
  }

  [Symbol.dispose](): void {
    clearInterval(this.#sweeper);
  }

  #tenantOf(tenantId: string, revision: number): LoadedTenant {
    let tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) {
      tenant = { id: tenantId, tools: new Map(), revision, wholeRevision: 0, usedAt: 0 };
      this.#tenants.set(tenantId, tenant);
    }
    // Another process may have changed the policy.
    if (tenant.revision < revision) this.#glovebox.invalidateTenant(tenantId);
    tenant.revision = Math.max(tenant.revision, revision);
    tenant.usedAt = Date.now();
    return tenant;
  }

  /** Runs a load after the one before it, unless that has done its work. Concurrent requests share it. */
  async #once(key: string, isDone: () => boolean, load: () => Promise<void>): Promise<void> {
    const before = this.#loads.get(key);
    const run = (async () => {
      await before?.catch(() => {});
      if (!isDone()) await load();
    })();
    this.#loads.set(key, run);
    try {
      await run;
    } finally {
      if (this.#loads.get(key) === run) this.#loads.delete(key);
    }
  }

  async #register(tenant: LoadedTenant, toolName: string, tool: LoadedTool, find: FindVersion): Promise<void> {
    const { id: tenantId } = tenant;
    const versions: ReleaseVersion[] = [];
    for (const [version, weight] of weightsOf(tool.releases)) {
      const stored = await find(toolName, version);
      if (stored?.state === "ready") versions.push(this.#toReleased(tenantId, stored, weight));
    }
    for (const stored of tool.extra) versions.push(this.#toReleased(tenantId, stored, 0));
    if (versions.length > 0) {
      this.#glovebox.setRelease(toolName, versions, { tenantId });
      const hasSessions = versions.some(({ isolateLifetime }) => isolateLifetime === "session");
      tenant.tools.set(toolName, { ...tool, hasSessions });
    } else if (tenant.tools.delete(toolName)) this.#glovebox.removeTool(toolName, { tenantId });
  }

  /** Returns the versions without a release that calls and runs have named, as far as they exist: some of them may be about to run. */
  async #keepExtra(
    tenant: LoadedTenant,
    toolName: string,
    releases: readonly ReleaseRecord[],
    find: FindVersion,
  ): Promise<readonly ToolVersionRecord[]> {
    const before = tenant.tools.get(toolName);
    const released = weightsOf(releases);
    const named = new Set((before?.extra ?? []).map(({ version }) => version));
    for (const version of weightsOf(before?.releases ?? []).keys()) named.add(version);
    const kept: ToolVersionRecord[] = [];
    for (const version of [...named].slice(-MAX_EXTRA)) {
      if (released.has(version)) continue;
      const stored = await find(toolName, version);
      if (stored?.state === "ready") kept.push(stored);
    }
    return kept;
  }

  /** Registers a version that no alias has, for the calls that name it. */
  async #addVersion(tenantId: string, toolName: string, version: number): Promise<void> {
    const tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) return;
    const toolOf = (): LoadedTool =>
      tenant.tools.get(toolName) ?? { revision: tenant.revision, releases: [], extra: [] };
    const isKnown = (): boolean => {
      const { releases, extra } = toolOf();
      return weightsOf(releases).has(version) || extra.some((one) => one.version === version);
    };
    if (isKnown()) return;
    await this.#once(JSON.stringify([tenantId, toolName]), isKnown, async () => {
      const find: FindVersion = (name, number) => findVersion(this.#db, { tenantId, toolName: name }, number);
      const stored = await find(toolName, version);
      if (stored === undefined) throw notFound(toolName, `has no version ${version}`);
      if (stored.state !== "ready") throw notFound(toolName, `has a version ${version}, but it is not approved`);
      const tool = toolOf();
      await this.#register(tenant, toolName, { ...tool, extra: [...tool.extra, stored] }, find);
    });
  }

  #toReleased(tenantId: string, stored: ToolVersionRecord, weight: number): ReleaseVersion {
    const { toolName, version, definition, bundleHash, language, settings } = stored;
    return {
      version: String(version),
      weight,
      definition,
      sha256: bundleHash,
      language,
      grant: settings.grant,
      limits: settings.limits,
      isolateLifetime: settings.isolateLifetime,
      load: async () => {
        const kind = language === "python" ? "source" : "bundle";
        const text = await readVersionFile(this.#db, { tenantId, toolName }, version, kind);
        if (text === undefined) throw new Error(`Version ${version} of ${toolName} has no stored ${kind}`);
        return JSON.parse(text) as StoredCode & ToolBundle;
      },
    };
  }

  #sweep(): void {
    const before = Date.now() - IDLE_MS;
    for (const [tenantId, { usedAt }] of this.#tenants) {
      if (usedAt < before && this.#glovebox.listCalls({ tenantId }).length === 0) this.forget(tenantId);
    }
  }
}

/** Returns the weight of each released version: that of the alias `live`, and 0 for versions of other aliases. */
function weightsOf(releases: readonly ReleaseRecord[]): ReadonlyMap<number, number> {
  const live = releases.find(({ alias }) => alias === LIVE);
  const weights = new Map(live?.versions.map(({ version, weight }) => [version, weight]));
  for (const { versions } of releases) {
    for (const { version } of versions) if (!weights.has(version)) weights.set(version, 0);
  }
  return weights;
}
