// Tracks which platform modules a bundle's isolates load, so that later processes and hosts have them ready.
import type { BundleCache } from "../../bundler/cache/bundle-cache.ts";
import type { PlatformModuleName } from "../../sandbox/protocol/platform-modules.ts";

export class PlatformModuleUsage {
  readonly #cache: BundleCache;
  readonly #sha256: string;
  readonly #names: Set<PlatformModuleName>;

  constructor(cache: BundleCache, sha256: string, known: readonly PlatformModuleName[]) {
    this.#cache = cache;
    this.#sha256 = sha256;
    this.#names = new Set(known);
  }

  get names(): readonly PlatformModuleName[] {
    return [...this.#names];
  }

  /**
   * @param names reported by a worker process; a wrong name costs the bundle's own isolates a fraction of a millisecond
   */
  add(names: readonly PlatformModuleName[]): void {
    const before = this.#names.size;
    for (const name of names) this.#names.add(name);
    if (this.#names.size > before) void this.#cache.setPlatformModules(this.#sha256, this.names);
  }
}
