// The objects of one kind that an executor keeps: read from a control plane by hash, checked, and kept in memory and on
// disk, until the last tenant that has used one is deleted.
import { ArtifactOwners, tenantOwner } from "../../bundler/cache/artifact-owners.ts";
import { DiskCache } from "../../bundler/cache/disk-cache.ts";
import { hashOf } from "../../host/fleet/objects/object-offers.ts";
import type { ObjectRef } from "../../host/fleet/protocol/message-fields.ts";

export interface ObjectStoreOptions {
  /** Folder of the objects on disk. */
  readonly folder: string;
  /** Largest size of the folder in bytes. */
  readonly maxBytes: number;
}

/** Largest size of the objects in memory, in bytes. */
const MEMORY_BYTES = 64 * 1024 * 1024;
/** Name of the file of an object in the folder. */
const fileOf = (sha256: string): string => `${sha256}.bundle`;

export class ObjectStore<Ref extends ObjectRef, Value> {
  readonly #files: DiskCache;
  readonly #parse: (bytes: Buffer, ref: Ref) => Value;
  /** The tenants that have used each object. */
  readonly #owners: ArtifactOwners;
  /** By hash, in order of use, most recent last. */
  readonly #known = new Map<string, { readonly value: Value; readonly bytes: number }>();
  #knownBytes = 0;
  readonly #loading = new Map<string, Promise<Value>>();

  /** @param parse returns what an object holds. It throws if the object is not of this kind */
  constructor({ folder, maxBytes }: ObjectStoreOptions, parse: (bytes: Buffer, ref: Ref) => Value) {
    this.#files = new DiskCache(folder, maxBytes);
    this.#parse = parse;
    this.#owners = new ArtifactOwners(this.#files, (sha256) => this.#known.has(sha256));
  }

  /** Returns an object from memory. */
  known({ sha256 }: Ref, tenantId: string): Value | undefined {
    const found = this.#known.get(sha256);
    if (found === undefined) return undefined;
    // Writes a file for the tenant's first use only.
    void this.#owners.claim(tenantOwner(tenantId), sha256);
    this.#known.delete(sha256);
    this.#known.set(sha256, found);
    return found.value;
  }

  /**
   * Returns an object from memory, the disk or the control plane.
   * @param read reads it from the control plane, for the call that needs it
   * @throws {ObjectError} as a rejection, if there is no valid one
   */
  async get(ref: Ref, tenantId: string, read: () => Promise<Buffer>): Promise<Value> {
    for (;;) {
      const known = this.known(ref, tenantId);
      if (known !== undefined) return known;
      const loading = this.#loading.get(ref.sha256);
      if (loading === undefined) break;
      // It fails if its call has ended, and this one can still read the object.
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

  /** Deletes the objects that only this tenant has used. Its calls have ended. */
  async deleteTenant(tenantId: string): Promise<void> {
    await Promise.allSettled(this.#loading.values());
    const { unused } = await this.#owners.release(tenantOwner(tenantId));
    for (const sha256 of unused) {
      this.#knownBytes -= this.#known.get(sha256)?.bytes ?? 0;
      this.#known.delete(sha256);
      await this.#files.delete(fileOf(sha256));
    }
  }

  async #load(ref: Ref, tenantId: string, read: () => Promise<Buffer>): Promise<Value> {
    const stored = await this.#readFile(ref);
    const bytes = stored ?? (await read());
    const value = this.#parse(bytes, ref);
    if (stored === undefined) await this.#files.write(fileOf(ref.sha256), bytes);
    await this.#owners.claim(tenantOwner(tenantId), ref.sha256);
    this.#known.set(ref.sha256, { value, bytes: bytes.byteLength });
    this.#knownBytes += bytes.byteLength;
    for (const [oldest, entry] of this.#known) {
      if (this.#knownBytes <= MEMORY_BYTES || oldest === ref.sha256) break;
      this.#known.delete(oldest);
      this.#knownBytes -= entry.bytes;
    }
    return value;
  }

  /** Returns the bytes of a file whose hash is right. */
  async #readFile({ sha256 }: Ref): Promise<Buffer | undefined> {
    const bytes = await this.#files.read(fileOf(sha256));
    if (bytes === undefined || hashOf(bytes) === sha256) return bytes;
    await this.#files.delete(fileOf(sha256));
    return undefined;
  }
}
