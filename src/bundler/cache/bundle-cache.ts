// Caches build results, in memory and optionally in a folder: bundles by the key of their source, V8 code caches by bundle and engine, and
// the platform modules that a bundle uses.
import { createHash } from "node:crypto";
import * as z from "zod";
import { isPlatformModuleName, type PlatformModuleName } from "../../sandbox/protocol/platform-modules.ts";
import { type BuiltBundle, freezeBundle } from "../bundle-tool.ts";
import { ArtifactOwners } from "./artifact-owners.ts";
import { DiskCache } from "./disk-cache.ts";
import { stemOf } from "./owner-marks.ts";

export interface BundleCacheOptions {
  /** A folder that only this cache uses, created at the first write. @default none: entries live in memory only */
  readonly directory?: string | undefined;
  /** Maximum bytes of the folder. */
  readonly maxBytes?: number | undefined;
  /** Maximum bytes of bundles and code caches that are kept in memory. */
  readonly memoryBytes?: number | undefined;
}

const MiB = 1024 * 1024;
const DEFAULT_MAX_BYTES = 512 * MiB;
const DEFAULT_MEMORY_BYTES = 64 * MiB;

const ListSchema = z.array(z.string());
const BuiltBundleSchema = z.strictObject({
  bundle: z.strictObject({
    sha256: z.string(),
    code: z.string(),
    sourceMap: z.string(),
    entry: z.string(),
    exports: ListSchema,
    inputs: z.array(z.strictObject({ path: z.string(), bytes: z.number() })),
    packages: ListSchema,
    dynamicCode: ListSchema,
  }),
  dependencies: z.array(
    z.strictObject({
      path: z.string(),
      owner: z.enum(["tool", "package"]),
      size: z.number(),
      mtimeMs: z.number(),
      ctimeMs: z.number(),
      ino: z.number(),
      sha256: z.string(),
    }),
  ),
  absent: ListSchema,
});

/** Largest size of a V8 code cache relative to its text (measured: 0.4 to 2.4 times). A larger one did not come from Glovebox. */
export const CODE_CACHE_FACTOR = 4;

/**
 * Returns a hash of what a code cache depends on in addition to its bundle. V8 rejects a cache of another version or of other flags, but
 * only after reading it.
 */
export function engineKeyOf(v8Flags: readonly string[]): string {
  const keyParts = [process.versions.v8, process.arch, process.platform, ...v8Flags];
  return createHash("sha256").update(JSON.stringify(keyParts)).digest("hex").slice(0, 16);
}

function parseBuilt(text: string): BuiltBundle | undefined {
  const parsed = BuiltBundleSchema.safeParse(JSON.parse(text));
  if (!parsed.success) return undefined;
  const { bundle, dependencies, absent } = parsed.data;
  if (createHash("sha256").update(bundle.code).digest("hex") !== bundle.sha256) return undefined;
  return { bundle: freezeBundle(bundle), dependencies, absent };
}

interface MemoryEntry {
  readonly value: BuiltBundle | Uint8Array;
  readonly bytes: number;
}

/** Estimates two bytes per character, the worst case, plus the lists. */
function memoryBytesOf(value: BuiltBundle | Uint8Array): number {
  if (value instanceof Uint8Array) return value.byteLength;
  const { bundle, dependencies, absent } = value;
  return 2 * (bundle.code.length + bundle.sourceMap.length) + 500 * (dependencies.length + absent.length);
}

/** An LRU cache. A Map iterates in insertion order: an entry that is used moves to the end, and entries are evicted from the start. */
class MemoryCache {
  readonly #entries = new Map<string, MemoryEntry>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get(key: string): MemoryEntry["value"] | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  set(key: string, value: MemoryEntry["value"]): void {
    this.delete(key);
    const bytes = memoryBytesOf(value);
    if (bytes > this.#maxBytes) return;
    this.#entries.set(key, { value, bytes });
    this.#bytes += bytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#maxBytes) break;
      this.delete(oldest);
    }
  }

  /** Yields each key with the bytes of its value. */
  *sizes(): Generator<readonly [key: string, bytes: number]> {
    for (const [key, { bytes }] of this.#entries) yield [key, bytes];
  }

  delete(key: string): void {
    this.#bytes -= this.#entries.get(key)?.bytes ?? 0;
    this.#entries.delete(key);
  }
}

/** Result of a deletion. A bundle, a code cache and a list of platform modules count as one artifact each. */
export interface ArtifactDeletion {
  readonly artifacts: number;
  readonly bytes: number;
  /** Number of hashes whose artifacts stayed because other owners use them too. */
  readonly sharedHashes: number;
}

const ENTRY = /\.(?:bundle|v8|chunks)$/;

/** Never throws because of the disk: a full, read-only or damaged folder only makes entries disappear. */
export class BundleCache {
  readonly #memory: MemoryCache;
  readonly #disk: DiskCache | undefined;
  readonly #owners: ArtifactOwners;
  /** Pending writes. */
  readonly #writes = new Set<Promise<void>>();

  constructor(options: BundleCacheOptions = {}) {
    this.#memory = new MemoryCache(options.memoryBytes ?? DEFAULT_MEMORY_BYTES);
    const maxBytes = options.maxBytes ?? DEFAULT_MAX_BYTES;
    this.#disk = options.directory === undefined ? undefined : new DiskCache(options.directory, maxBytes);
    this.#owners = new ArtifactOwners(this.#disk, (stem) => this.#hasInMemory(stem));
  }

  #hasInMemory(stem: string): boolean {
    for (const [name] of this.#memory.sizes()) if (stemOf(name) === stem) return true;
    return false;
  }

  async #write(name: string, payload: Uint8Array): Promise<void> {
    const pendingWrite = this.#disk?.write(name, payload);
    if (pendingWrite === undefined) return;
    this.#writes.add(pendingWrite);
    try {
      await pendingWrite;
    } finally {
      this.#writes.delete(pendingWrite);
    }
  }

  /** Records that a tool of an owner consists of the artifacts of a hash. They stay until the last owner is deleted. */
  async claim(owner: string, hash: string): Promise<void> {
    await this.#owners.claim(owner, hash);
  }

  /**
   * Removes the artifacts that only this owner uses, in memory and on disk.
   * @throws {Error} if a file cannot be removed
   */
  async deleteOwner(owner: string): Promise<ArtifactDeletion> {
    await Promise.allSettled([...this.#writes]);
    const { unused, shared } = await this.#owners.release(owner);
    const removed = new Map<string, number>();
    for (const [name, bytes] of [...this.#memory.sizes()]) {
      if (!unused.has(stemOf(name))) continue;
      this.#memory.delete(name);
      removed.set(name, bytes);
    }
    const names = (await this.#disk?.names()) ?? [];
    const files = await this.#disk?.remove(names.filter((name) => ENTRY.test(name) && unused.has(stemOf(name))));
    for (const [name, bytes] of files ?? []) removed.set(name, bytes);
    let bytes = 0;
    for (const size of removed.values()) bytes += size;
    return { artifacts: removed.size, bytes, sharedHashes: shared.size };
  }

  /** Returns why the folder cannot be used, in which case entries live in memory only. Returns undefined if it can, or if there is none. */
  async findIssue(): Promise<string | undefined> {
    return await this.#disk?.findIssue();
  }

  /** Returns the build result of a hex `key`. The caller checks whether the files that the build read are unchanged. */
  async get(key: string): Promise<BuiltBundle | undefined> {
    const name = `${key}.bundle`;
    const known = this.#memory.get(name);
    if (known !== undefined && !(known instanceof Uint8Array)) return known;
    const payload = await this.#disk?.read(name);
    if (payload === undefined) return undefined;
    const built = parseBuilt(payload.toString("utf8"));
    if (built === undefined) await this.#disk?.delete(name);
    else this.#memory.set(name, built);
    return built;
  }

  async set(key: string, built: BuiltBundle): Promise<void> {
    const name = `${key}.bundle`;
    this.#memory.set(name, built);
    await this.#write(name, Buffer.from(JSON.stringify(built)));
  }

  /** Returns the code cache that this installation produced from a bundle of this hash on an engine of this key. */
  async getCodeCache(bundleSha256: string, engineKey: string): Promise<Uint8Array | undefined> {
    const name = `${bundleSha256}-${engineKey}.v8`;
    const known = this.#memory.get(name);
    if (known instanceof Uint8Array) return known;
    const payload = await this.#disk?.read(name);
    if (payload === undefined) return undefined;
    const copy = new Uint8Array(payload);
    this.#memory.set(name, copy);
    return copy;
  }

  /** Stores a code cache. It must come from a process of Glovebox after its own warm-up run: V8 trusts a code cache (CVE-2022-39266). */
  async setCodeCache(bundleSha256: string, engineKey: string, codeCache: Uint8Array): Promise<void> {
    const name = `${bundleSha256}-${engineKey}.v8`;
    // Copied: a small Buffer is a slice of a pool of 64 KiB and keeps the whole pool alive.
    const copy = new Uint8Array(codeCache);
    this.#memory.set(name, copy);
    await this.#write(name, copy);
  }

  /**
   * Returns the saved memory of the Python interpreter for an engine of this key. It is not kept in memory here: the caller keeps it, and
   * it is larger than all bundles together. It must come from a process of Glovebox before any code of a tool was loaded.
   */
  async getSnapshot(key: string): Promise<Uint8Array | undefined> {
    return await this.#disk?.read(`${key}.snapshot`);
  }

  async setSnapshot(key: string, snapshot: Uint8Array): Promise<void> {
    await this.#disk?.write(`${key}.snapshot`, snapshot);
  }

  /** Returns the platform modules that isolates of this bundle have used, in this process or an earlier one. */
  async getPlatformModules(bundleSha256: string): Promise<readonly PlatformModuleName[]> {
    const name = `${bundleSha256}.chunks`;
    const known = this.#memory.get(name);
    const payload = known instanceof Uint8Array ? known : await this.#disk?.read(name);
    if (payload === undefined) return [];
    return Buffer.from(payload).toString().split("\n").filter(isPlatformModuleName);
  }

  async setPlatformModules(bundleSha256: string, chunks: readonly PlatformModuleName[]): Promise<void> {
    const name = `${bundleSha256}.chunks`;
    const payload = new Uint8Array(Buffer.from(chunks.join("\n")));
    this.#memory.set(name, payload);
    await this.#write(name, payload);
  }
}

export function createBundleCache(options: BundleCacheOptions = {}): BundleCache {
  return new BundleCache(options);
}
