// The bundles of an executor: read from a control plane by hash, checked, and kept in memory and on disk, until the last tenant that has used
// one is deleted.
import { ArtifactOwners, tenantOwner } from "../bundler/cache/artifact-owners.ts";
import { DiskCache } from "../bundler/cache/disk-cache.ts";
import { hashOf, ObjectError } from "../host/fleet/objects/object-offers.ts";
import type { RunMessage } from "../host/fleet/protocol/messages.ts";
import type { SentBundle } from "../host/workers/worker-job.ts";
import { unpack } from "../sandbox/protocol/length-prefixed.ts";
import { isPlatformModuleName } from "../sandbox/protocol/platform-modules.ts";

export type BundleRef = RunMessage["bundle"];

export interface BundleStoreOptions {
  /** Folder of the bundles on disk. */
  readonly folder: string;
  /** Largest size of the folder in bytes. */
  readonly maxBytes: number;
}

/** Largest size of the bundles in memory, in bytes. */
const MEMORY_BYTES = 64 * 1024 * 1024;
/** Name of the file of a bundle in the folder. */
const fileOf = (sha256: string): string => `${sha256}.bundle`;

export class BundleStore {
  readonly #files: DiskCache;
  /** The tenants that have used each bundle. */
  readonly #owners: ArtifactOwners;
  /** By the hash of their object. The bundle used last is the last one. */
  readonly #known = new Map<string, { readonly bundle: SentBundle; readonly bytes: number }>();
  #knownBytes = 0;
  readonly #loading = new Map<string, Promise<SentBundle>>();

  constructor({ folder, maxBytes }: BundleStoreOptions) {
    this.#files = new DiskCache(folder, maxBytes);
    this.#owners = new ArtifactOwners(this.#files, (sha256) => this.#known.has(sha256));
  }

  /** Returns a bundle from memory. */
  known({ sha256 }: BundleRef, tenantId: string): SentBundle | undefined {
    const found = this.#known.get(sha256);
    if (found === undefined) return undefined;
    // Writes a file for the tenant's first use only.
    void this.#owners.claim(tenantOwner(tenantId), sha256);
    this.#known.delete(sha256);
    this.#known.set(sha256, found);
    return found.bundle;
  }

  /**
   * Returns a bundle from memory, the disk or the control plane.
   * @param read reads it from the control plane, for the call that needs it
   * @throws {ObjectError} as a rejection, if there is no valid one
   */
  async get(ref: BundleRef, tenantId: string, read: () => Promise<Buffer>): Promise<SentBundle> {
    for (;;) {
      const known = this.known(ref, tenantId);
      if (known !== undefined) return known;
      const loading = this.#loading.get(ref.sha256);
      if (loading === undefined) break;
      // It fails if its call has ended, and this one can still read the bundle.
      await loading.catch(() => undefined);
    }
    const loading = this.#load(ref, tenantId, read);
    this.#loading.set(ref.sha256, loading);
    try {
      return await loading;
    } finally {
      this.#loading.delete(ref.sha256);
    }
  }

  /** Deletes the bundles that only this tenant has used. Its calls have ended. */
  async deleteTenant(tenantId: string): Promise<void> {
    await Promise.allSettled(this.#loading.values());
    const { unused } = await this.#owners.release(tenantOwner(tenantId));
    for (const sha256 of unused) {
      this.#knownBytes -= this.#known.get(sha256)?.bytes ?? 0;
      this.#known.delete(sha256);
      await this.#files.delete(fileOf(sha256));
    }
  }

  async #load(ref: BundleRef, tenantId: string, read: () => Promise<Buffer>): Promise<SentBundle> {
    const stored = await this.#readFile(ref);
    const bytes = stored ?? (await read());
    const bundle = parseBundle(bytes, ref);
    if (stored === undefined) await this.#files.write(fileOf(ref.sha256), bytes);
    await this.#owners.claim(tenantOwner(tenantId), ref.sha256);
    this.#known.set(ref.sha256, { bundle, bytes: bytes.byteLength });
    this.#knownBytes += bytes.byteLength;
    for (const [oldest, entry] of this.#known) {
      if (this.#knownBytes <= MEMORY_BYTES || oldest === ref.sha256) break;
      this.#known.delete(oldest);
      this.#knownBytes -= entry.bytes;
    }
    return bundle;
  }

  /** Returns the bytes of a file whose hash is right. */
  async #readFile({ sha256 }: BundleRef): Promise<Buffer | undefined> {
    const bytes = await this.#files.read(fileOf(sha256));
    if (bytes === undefined || hashOf(bytes) === sha256) return bytes;
    await this.#files.delete(fileOf(sha256));
    return undefined;
  }
}

/** @throws {ObjectError} unless the object is the bundle that the call names */
function parseBundle(bytes: Uint8Array, { code: sha256 }: BundleRef): SentBundle {
  const [code, codeCache, names, ...others] = unpack(bytes);
  if (code === undefined || codeCache === undefined || names === undefined || others.length > 0)
    throw new ObjectError("An object is not a bundle");
  if (hashOf(code) !== sha256) throw new ObjectError("The code of a bundle is not what its hash says");
  const listed: unknown = JSON.parse(Buffer.from(names).toString());
  if (!Array.isArray(listed)) throw new ObjectError("An object is not a bundle");
  const modules = listed.filter((name) => typeof name === "string" && isPlatformModuleName(name));
  return { sha256, code: Buffer.from(code).toString(), codeCache, modules: { names: modules } };
}
