// Keeps the tools of tenants in the Glovebox: registers the releases of a tenant when it is first used, and again when they have changed. The
// code of a version is read from the database when the version first runs, so a tool that is not called costs a row.
import { type Glovebox, type ReleaseVersion, type StoredCode, type ToolBundle, ToolError } from "../../host/index.ts";
import type { Db } from "../database/open-database.ts";
import { listReleases, type Release } from "../records/releases.ts";
import { findVersion, readVersionFile, type ToolVersion } from "../records/tool-versions.ts";

/** The alias that calls without an alias run. */
export const LIVE = "live";
/** Time in ms after which the tools of a tenant that makes no calls are removed from memory. */
const IDLE_MS = 10 * 60_000;
const SWEEP_MS = 60_000;

interface LoadedTenant {
  readonly revision: number;
  readonly releases: ReadonlyMap<string, readonly Release[]>;
  /** Versions by tool that calls have named although no alias has them. */
  readonly extra: Map<string, Set<number>>;
  usedAt: number;
}

const notFound = (toolName: string, what: string): ToolError =>
  new ToolError("TOOL_UNAVAILABLE", `The tool ${JSON.stringify(toolName)} ${what}`, {
    details: { reason: "not_found", toolName },
  });

export class TenantTools implements Disposable {
  readonly #box: Glovebox;
  readonly #db: Db;
  readonly #tenants = new Map<string, LoadedTenant>();
  readonly #loading = new Map<string, { readonly revision: number; readonly done: Promise<LoadedTenant> }>();
  readonly #sweeper: NodeJS.Timeout;

  constructor(box: Glovebox, db: Db) {
    this.#box = box;
    this.#db = db;
    this.#sweeper = setInterval(() => this.#sweep(), SWEEP_MS);
    this.#sweeper.unref();
  }

  /**
   * Registers the tools of a tenant unless they are. Concurrent calls share one load.
   * @param revision of the tenant, as the request has read it
   */
  async ensure(tenantId: string, revision: number): Promise<void> {
    const known = this.#tenants.get(tenantId);
    if (known !== undefined && known.revision >= revision) {
      known.usedAt = Date.now();
      return;
    }
    let loading = this.#loading.get(tenantId);
    if (loading === undefined || loading.revision < revision) {
      const before = loading?.done.catch(() => undefined);
      const done = Promise.resolve(before).then(() => this.#load(tenantId, revision));
      loading = { revision, done };
      this.#loading.set(tenantId, loading);
      const own = loading;
      const forget = (): void => {
        if (this.#loading.get(tenantId) === own) this.#loading.delete(tenantId);
      };
      done.then(forget, forget);
    }
    await loading.done;
  }

  /**
   * Returns the version that a call must name: undefined for the alias `live`, whose weights the Glovebox applies itself.
   * @throws {ToolError} TOOL_UNAVAILABLE (`details.reason: "not_found"`)
   */
  async choose(
    tenantId: string,
    toolName: string,
    { alias = LIVE, version }: { readonly alias?: string | undefined; readonly version?: number | undefined },
  ): Promise<string | undefined> {
    const loaded = this.#tenants.get(tenantId);
    const releases = loaded?.releases.get(toolName);
    if (version !== undefined) {
      await this.#addVersion(tenantId, toolName, version);
      return String(version);
    }
    if (alias === LIVE) return undefined;
    const release = releases?.find((one) => one.alias === alias);
    if (release === undefined) throw notFound(toolName, `has no release ${JSON.stringify(alias)}`);
    const total = release.versions.reduce((sum, { weight }) => sum + weight, 0);
    let left = Math.random() * total;
    const chosen = release.versions.find(({ weight }) => {
      left -= weight;
      return left < 0;
    });
    return String((chosen ?? release.versions[0])?.version);
  }

  /** Removes the tools of a tenant from the Glovebox. */
  forget(tenantId: string): void {
    const loaded = this.#tenants.get(tenantId);
    this.#tenants.delete(tenantId);
    for (const toolName of this.#namesOf(loaded)) this.#box.removeTool(toolName, { tenantId });
  }

  [Symbol.dispose](): void {
    clearInterval(this.#sweeper);
  }

  #namesOf(loaded: LoadedTenant | undefined): ReadonlySet<string> {
    return new Set([...(loaded?.releases.keys() ?? []), ...(loaded?.extra.keys() ?? [])]);
  }

  async #load(tenantId: string, revision: number): Promise<LoadedTenant> {
    const releases = Map.groupBy(await listReleases(this.#db, { tenantId }), ({ toolName }) => toolName);
    const before = this.#tenants.get(tenantId);
    const versions = await this.#versionsOf(tenantId, releases);
    // No await from here on, so that each call finds either the old tools or the new ones.
    for (const toolName of this.#namesOf(before)) {
      if (!releases.has(toolName)) this.#box.removeTool(toolName, { tenantId });
    }
    for (const [toolName, released] of versions) this.#box.setRelease(toolName, released, { tenantId });
    this.#box.invalidateTenant(tenantId);
    const loaded = { revision, releases, extra: new Map(), usedAt: Date.now() };
    this.#tenants.set(tenantId, loaded);
    return loaded;
  }

  async #versionsOf(
    tenantId: string,
    releases: ReadonlyMap<string, readonly Release[]>,
  ): Promise<ReadonlyMap<string, readonly ReleaseVersion[]>> {
    const tools = new Map<string, readonly ReleaseVersion[]>();
    for (const [toolName, aliases] of releases) {
      const live = aliases.find(({ alias }) => alias === LIVE);
      const weights = new Map(live?.versions.map(({ version, weight }) => [version, weight]));
      for (const { versions } of aliases) {
        for (const { version } of versions) if (!weights.has(version)) weights.set(version, 0);
      }
      const found: ReleaseVersion[] = [];
      for (const [version, weight] of weights) {
        const stored = await findVersion(this.#db, { tenantId, toolName }, version);
        if (stored !== undefined && stored.state === "ready") found.push(this.#toReleased(tenantId, stored, weight));
      }
      if (found.length > 0) tools.set(toolName, found);
    }
    return tools;
  }

  /** Registers a version that no alias has, for the calls that name it. */
  async #addVersion(tenantId: string, toolName: string, version: number): Promise<void> {
    const loaded = this.#tenants.get(tenantId);
    if (loaded === undefined) return;
    const released = loaded.releases.get(toolName) ?? [];
    if (released.some(({ versions }) => versions.some((one) => one.version === version))) return;
    if (loaded.extra.get(toolName)?.has(version) === true) return;
    const stored = await findVersion(this.#db, { tenantId, toolName }, version);
    if (stored === undefined) throw notFound(toolName, `has no version ${version}`);
    if (stored.state !== "ready") throw notFound(toolName, `has a version ${version}, but it is not approved`);
    const known = await this.#versionsOf(tenantId, new Map(released.length === 0 ? [] : [[toolName, released]]));
    const extra = loaded.extra.get(toolName) ?? new Set<number>();
    extra.add(version);
    loaded.extra.set(toolName, extra);
    const others: ReleaseVersion[] = [];
    for (const one of extra) {
      const other = one === version ? stored : await findVersion(this.#db, { tenantId, toolName }, one);
      if (other !== undefined) others.push(this.#toReleased(tenantId, other, 0));
    }
    this.#box.setRelease(toolName, [...(known.get(toolName) ?? []), ...others], { tenantId });
  }

  #toReleased(tenantId: string, stored: ToolVersion, weight: number): ReleaseVersion {
    const { toolName, version, definition, bundleHash, language, settings } = stored;
    return {
      ...{ version: String(version), weight, definition, sha256: bundleHash, language },
      ...{ grant: settings.grant, limits: settings.limits, isolateLifetime: settings.isolateLifetime },
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
      if (usedAt < before && this.#box.listCalls({ tenantId }).length === 0) this.forget(tenantId);
    }
  }
}
