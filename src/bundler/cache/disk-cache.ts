// A folder of verified entries: each is written atomically and checked at each read, and the least recently used ones are evicted.
import { createHash, randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, lstat, open, readdir, rename, stat, unlink, utimes } from "node:fs/promises";
import { join } from "node:path";
import { makeFolder } from "../locate/make-folder.ts";
import { isStaleMark, stemOf } from "./owner-marks.ts";

/** Changes with the file layout or the payload format. Entries of another version are ignored. */
const MAGIC = Buffer.from("glovebox-cache-1\n");
const CHECKSUM_BYTES = 32;
const ENTRY_NAME = /^[\w-]+\.(?:bundle|v8|chunks|snapshot)$/;
const TEMPORARY_NAME = /^\.[\w-]+\.tmp$/;
const MAX_ENTRY_BYTES = 128 * 1024 * 1024;
/** An entry's mtime is the time of its last use. It is updated at most once in this interval. */
const TOUCH_INTERVAL_MS = 60_000;
/** Age at which the temporary file of a killed writer is removed. */
const TEMPORARY_LIFETIME_MS = 3_600_000;
/** Eviction stops at this share of the limit, so that a full cache does not list its folder at each write. */
const EVICT_TO = 0.8;
/** Number of writes until the folder is measured again, because other processes write to it too. */
const WRITES_BETWEEN_SCANS = 64;

function checksum(name: string, payload: Uint8Array): Buffer {
  // The name is hashed too, so that an entry is valid under its own name only.
  return createHash("sha256").update(`${name}\n`).update(payload).digest();
}

async function readAll(file: FileHandle): Promise<{ bytes: Buffer; mtimeMs: number } | undefined> {
  const stats = await file.stat();
  if (!stats.isFile() || stats.size > MAX_ENTRY_BYTES) return undefined;
  return { bytes: await file.readFile(), mtimeMs: stats.mtimeMs };
}

function payloadOf(name: string, bytes: Buffer): Buffer | undefined {
  const start = MAGIC.length + CHECKSUM_BYTES;
  if (bytes.length < start || !bytes.subarray(0, MAGIC.length).equals(MAGIC)) return undefined;
  const payload = bytes.subarray(start);
  return checksum(name, payload).equals(bytes.subarray(MAGIC.length, start)) ? payload : undefined;
}

/** Tells whether only this user can create entries: a code cache that an attacker wrote would run as native code. */
async function isPrivateFolder(directory: string): Promise<boolean> {
  const stats = await lstat(directory);
  if (!stats.isDirectory()) return false;
  const uid = process.getuid?.();
  return uid === undefined || (stats.uid === uid && (stats.mode & 0o022) === 0);
}

export class DiskCache {
  readonly #directory: string;
  readonly #maxBytes: number;
  #isUsable: Promise<boolean> | undefined;
  /** Estimated bytes in the folder. */
  #bytes = 0;
  #writesUntilScan = 0;
  #eviction: Promise<void> | undefined;

  constructor(directory: string, maxBytes: number) {
    this.#directory = directory;
    this.#maxBytes = maxBytes;
  }

  /** Returns the payload of an entry, or `undefined` if it is missing or damaged. A damaged entry is removed. */
  async read(name: string): Promise<Buffer | undefined> {
    const path = join(this.#directory, name);
    try {
      if (!(await this.#usable(false))) return undefined;
      await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
      const found = await readAll(file);
      const payload = found === undefined ? undefined : payloadOf(name, found.bytes);
      if (payload === undefined) await this.delete(name);
      else if (Date.now() - (found?.mtimeMs ?? 0) > TOUCH_INTERVAL_MS) await this.#touch(path);
      return payload;
    } catch {
      return undefined;
    }
  }

  async write(name: string, payload: Uint8Array): Promise<void> {
    const size = MAGIC.length + CHECKSUM_BYTES + payload.byteLength;
    if (size > Math.min(MAX_ENTRY_BYTES, this.#maxBytes)) return;
    const temporary = join(this.#directory, `.${randomUUID()}.tmp`);
    try {
      if (!(await this.#usable(true))) return;
      await this.#writeFile(temporary, [MAGIC, checksum(name, payload), payload]);
      await rename(temporary, join(this.#directory, name));
      this.#bytes += size;
      this.#writesUntilScan -= 1;
      if (this.#bytes > this.#maxBytes || this.#writesUntilScan < 0) await this.#evict();
    } catch {
      // Another process may have removed the folder. The next write creates it again.
      this.#isUsable = undefined;
      await unlink(temporary).catch(() => undefined);
    }
  }

  /** Writes an empty file. Its name carries the information. */
  async mark(name: string): Promise<void> {
    try {
      if (!(await this.#usable(true))) return;
      await using _file = await open(join(this.#directory, name), "a", 0o600);
    } catch {
      this.#isUsable = undefined;
    }
  }

  /** Returns the names of all files in the folder, or none if the folder is missing or other users can write to it. */
  async names(): Promise<readonly string[]> {
    try {
      return (await this.#usable(false)) ? await readdir(this.#directory) : [];
    } catch {
      return [];
    }
  }

  /**
   * Removes entries permanently. Returns the bytes of each one that existed.
   * @throws {Error} if an entry cannot be removed
   */
  async remove(names: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const removed = new Map<string, number>();
    for (const name of names) {
      const path = join(this.#directory, name);
      const stats = await lstat(path).catch(() => undefined);
      if (stats === undefined) continue;
      await unlink(path);
      this.#bytes -= stats.size;
      removed.set(name, stats.size);
    }
    return removed;
  }

  async delete(name: string): Promise<void> {
    await unlink(join(this.#directory, name)).catch(() => undefined);
  }

  async #writeFile(path: string, parts: readonly Uint8Array[]): Promise<void> {
    await using file = await open(path, "wx", 0o600);
    await file.writev(parts);
  }

  /**
   * Returns why no entry can be stored here, and then disables reads and writes. Returns undefined if entries can be written. It creates
   * and removes a file to find out, because permission bits are not enough: root passes all of them.
   */
  async findIssue(): Promise<string | undefined> {
    const probe = join(this.#directory, `.${randomUUID()}.tmp`);
    try {
      if ((await lstat(this.#directory).catch(() => undefined))?.isFile()) return this.#disable("it is a file");
      await makeFolder(this.#directory);
      if (!(await isPrivateFolder(this.#directory))) return this.#disable("other users can write to it");
      await this.#writeFile(probe, []);
      await unlink(probe);
      return undefined;
    } catch (thrown) {
      const { code } = (thrown ?? {}) as { readonly code?: unknown };
      return this.#disable(typeof code === "string" ? code : "it cannot be written");
    }
  }

  #disable(problem: string): string {
    this.#isUsable = Promise.resolve(false);
    return problem;
  }

  /** Creates the folder at the first write. A folder that other users can write to is not used at all. */
  async #usable(create: boolean): Promise<boolean> {
    if (this.#isUsable !== undefined) return await this.#isUsable;
    if (create) await makeFolder(this.#directory);
    else if ((await lstat(this.#directory).catch(() => undefined)) === undefined) return false;
    this.#isUsable = isPrivateFolder(this.#directory).catch(() => false);
    return await this.#isUsable;
  }

  async #touch(path: string): Promise<void> {
    const now = new Date();
    await utimes(path, now, now).catch(() => undefined);
  }

  async #evict(): Promise<void> {
    this.#eviction ??= this.#scanAndEvict().finally(() => {
      this.#eviction = undefined;
    });
    await this.#eviction;
  }

  async #scanAndEvict(): Promise<void> {
    const names = await readdir(this.#directory);
    const stems = new Set(names.filter((name) => ENTRY_NAME.test(name)).map(stemOf));
    const expired = Date.now() - TEMPORARY_LIFETIME_MS;
    const entries: { name: string; size: number; mtimeMs: number }[] = [];
    for (const name of names) {
      const isMark = isStaleMark(name, stems);
      if (!ENTRY_NAME.test(name) && !TEMPORARY_NAME.test(name) && !isMark) continue;
      const stats = await stat(join(this.#directory, name)).catch(() => undefined);
      if (stats === undefined) continue;
      if (ENTRY_NAME.test(name)) entries.push({ name, size: stats.size, mtimeMs: stats.mtimeMs });
      else if (stats.mtimeMs < expired) await this.delete(name);
    }
    let bytes = entries.reduce((sum, entry) => sum + entry.size, 0);
    if (bytes > this.#maxBytes) {
      for (const entry of entries.sort((a, b) => a.mtimeMs - b.mtimeMs)) {
        if (bytes <= this.#maxBytes * EVICT_TO) break;
        await this.delete(entry.name);
        bytes -= entry.size;
      }
    }
    this.#bytes = bytes;
    this.#writesUntilScan = WRITES_BETWEEN_SCANS;
  }
}
