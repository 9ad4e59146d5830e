// Records which owners use the artifacts of a cache. Artifacts are addressed by content, so several tenants may share one, and it is
// removed only with its last owner. On disk each use is an empty file next to the artifacts, so that it outlives the process. Its name
// contains a hash of the tenant id.

import type { DiskCache } from "./disk-cache.ts";
import { MARK, ownerHashOf } from "./owner-marks.ts";

/** Owner of the tools of all tenants. */
export const GLOBAL_OWNER = "global";
export const tenantOwner = (tenantId: string): string => `tenant:${tenantId}`;
/** Returns the owner of a tool that is built for one tenant, or for all tenants. */
export const ownerOfTool = (tenantId: string | undefined): string =>
  tenantId === undefined ? GLOBAL_OWNER : tenantOwner(tenantId);

/** Number of stems whose owners are kept in memory, in addition to those on disk. The least recently claimed ones are dropped first. */
const MAX_STEMS = 10_000;

export class ArtifactOwners {
  readonly #disk: DiskCache | undefined;
  readonly #isKept: (stem: string) => boolean;
  /** Hashes of the owners of each stem. */
  readonly #owners = new Map<string, Set<string>>();

  /** @param isKept returns whether an artifact of a stem is in memory; the owners of such a stem are not dropped */
  constructor(disk: DiskCache | undefined, isKept: (stem: string) => boolean) {
    this.#disk = disk;
    this.#isKept = isKept;
  }

  /** Records that an owner uses the artifacts of a stem. Never throws: if the disk rejects the mark, it rejects the artifact too. */
  async claim(owner: string, stem: string): Promise<void> {
    const hash = ownerHashOf(owner);
    const known = this.#owners.get(stem) ?? new Set<string>();
    const isNew = !known.has(hash);
    known.add(hash);
    this.#owners.delete(stem);
    this.#owners.set(stem, known);
    this.#makeRoom();
    if (isNew) await this.#disk?.mark(`${hash}-${stem}.owner`);
  }

  #makeRoom(): void {
    if (this.#owners.size <= MAX_STEMS) return;
    for (const stem of this.#owners.keys()) {
      if (this.#owners.size <= MAX_STEMS) return;
      if (!this.#isKept(stem)) this.#owners.delete(stem);
    }
  }

  /** Removes an owner. Returns the stems that no owner uses any more, and those that others still use. */
  async release(
    owner: string,
  ): Promise<{ readonly unused: ReadonlySet<string>; readonly shared: ReadonlySet<string> }> {
    const hash = ownerHashOf(owner);
    const users = new Map<string, Set<string>>();
    const add = (stem: string, user: string): void => {
      const known = users.get(stem) ?? new Set<string>();
      users.set(stem, known.add(user));
    };
    for (const [stem, owners] of this.#owners) for (const user of owners) add(stem, user);
    for (const name of (await this.#disk?.names()) ?? []) {
      const [, user, stem] = MARK.exec(name) ?? [];
      if (user !== undefined && stem !== undefined) add(stem, user);
    }
    const unused = new Set<string>();
    const shared = new Set<string>();
    for (const [stem, owners] of users) {
      if (!owners.has(hash)) continue;
      (owners.size === 1 ? unused : shared).add(stem);
      this.#owners.get(stem)?.delete(hash);
      await this.#disk?.delete(`${hash}-${stem}.owner`);
    }
    for (const stem of unused) this.#owners.delete(stem);
    return { unused, shared };
  }
}
