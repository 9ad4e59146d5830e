// Who uses what a cache keeps: artifacts are addressed by content, so several tenants may share one, and it goes only with the last of them.
// On disk each use is an empty file next to the artifacts, so that it outlives the process; a tenant's id is hashed in its name.

import type { DiskCache } from "./disk-cache.ts";
import { hashOf, MARK } from "./owner-marks.ts";

/** Of tools of all tenants. */
export const GLOBAL_OWNER = "global";
export const tenantOwner = (tenantId: string): string => `tenant:${tenantId}`;
/** Returns the owner of a tool that is built for a tenant, or for all of them. */
export const ownerOfTool = (tenantId: string | undefined): string =>
  tenantId === undefined ? GLOBAL_OWNER : tenantOwner(tenantId);

/** Uses that are remembered besides those on disk; of more, those that were made longest ago are forgotten. */
const MAX_STEMS = 10_000;

export class ArtifactOwners {
  readonly #disk: DiskCache | undefined;
  readonly #isKept: (stem: string) => boolean;
  /** Hashes of owners, by stem. */
  readonly #owners = new Map<string, Set<string>>();

  /** @param isKept tells whether an artifact of a stem is in memory: its uses are not forgotten */
  constructor(disk: DiskCache | undefined, isKept: (stem: string) => boolean) {
    this.#disk = disk;
    this.#isKept = isKept;
  }

  /** Notes that an owner uses the artifacts of a stem. Never throws: a disk that takes no mark keeps no artifact either. */
  async claim(owner: string, stem: string): Promise<void> {
    const hash = hashOf(owner);
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

  /** Takes an owner's uses back. Returns the stems that no one uses any more, and those that others use. */
  async release(
    owner: string,
  ): Promise<{ readonly unused: ReadonlySet<string>; readonly shared: ReadonlySet<string> }> {
    const hash = hashOf(owner);
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
