// Unpacks an uploaded archive (.tar.gz, .tgz or .zip) in memory: regular text files with plain relative paths only, within limits on their
// number and size. Links, devices, and paths that leave the archive are rejected, and nothing is written to a disk.
import { gunzip } from "node:zlib";
import { unpackTar } from "modern-tar";
import { type Entry, fromBuffer, type ZipFile } from "yauzl";
import { ToolError } from "../../host/index.ts";

/** Maximum number of files, and size of all files together in bytes. The first is that of an upload as a map of files. */
const MAX_FILES = 500;
const MAX_BYTES = 16 * 1024 * 1024;
/** A header of 512 bytes and up to 511 bytes of padding for each file, and extended headers. */
const MAX_TAR_BYTES = MAX_BYTES + MAX_FILES * 8_192;
const MAX_PATH_LENGTH = 512;
/** Upper 16 bits of a zip entry's external attributes are its mode on Unix. */
const MODE_SHIFT = 16;
const FILE_TYPE_MASK = 0o170_000;
const REGULAR_FILE = 0o100_000;
const DIRECTORY = 0o040_000;
const ENCRYPTED_FLAG = 1;

/** Control characters, and characters that mean something in a path on some systems. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const UNUSUAL = /[\\\0-\x1f\x7f:*?"<>|]/;

export type Files = { readonly [path: string]: string };

const invalid = (why: string, cause?: unknown): ToolError =>
  new ToolError("PARAM_INVALID", `archive: ${why}`, cause === undefined ? {} : { cause });
const shown = (path: string): string => JSON.stringify(path.slice(0, 200));

/** Collects files, and keeps the limits. */
class Collector {
  readonly #files = new Map<string, string>();
  /** Paths as file systems compare them that ignore case. */
  readonly #folded = new Set<string>();
  #entries = 0;
  #bytes = 0;

  /** Counts an entry of any type. */
  count(): void {
    this.#entries += 1;
    if (this.#entries > 2 * MAX_FILES) throw invalid(`Expected at most ${MAX_FILES} files`);
  }

  /** @throws {ToolError} for a path that is not plain, or that the archive has twice */
  checkPath(path: string): void {
    const isPlain =
      path.length <= MAX_PATH_LENGTH &&
      path.isWellFormed() &&
      !UNUSUAL.test(path) &&
      path.split("/").every((part) => part !== "" && part !== "." && part !== ".." && part.trim() === part);
    if (!isPlain) throw invalid(`${shown(path)} is not a plain relative path`);
    const folded = path.normalize("NFC").toLowerCase();
    if (this.#folded.has(folded)) throw invalid(`${shown(path)} is in the archive twice`);
    this.#folded.add(folded);
    if (this.#folded.size > MAX_FILES) throw invalid(`Expected at most ${MAX_FILES} files`);
  }

  /** Reads the content of a file, and counts its bytes while they arrive. */
  async add(name: string, chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<void> {
    // "tar -C folder ." writes names that begin with "./".
    const path = name.replace(/^\.\//, "");
    this.checkPath(path);
    const parts: Uint8Array[] = [];
    for await (const chunk of chunks) {
      this.#bytes += chunk.byteLength;
      if (this.#bytes > MAX_BYTES) throw invalid(`Expected at most ${MAX_BYTES} bytes in all files`);
      parts.push(chunk);
    }
    try {
      this.#files.set(path, new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(parts)));
    } catch (cause) {
      throw invalid(`${shown(path)} is not text in UTF-8`, cause);
    }
  }

  /** Returns the files. If all are in one folder, as npm and GitHub pack them, without it. */
  finish(): Files {
    const paths = [...this.#files.keys()];
    if (paths.length === 0) throw invalid("Expected at least one file");
    const [root] = (paths[0] as string).split("/");
    const isWrapped = paths.every((path) => path.startsWith(`${root}/`));
    const start = isWrapped ? (root as string).length + 1 : 0;
    return Object.fromEntries([...this.#files].map(([path, text]) => [path.slice(start), text]));
  }
}

const gunzipLimited = (bytes: Buffer): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    gunzip(bytes, { maxOutputLength: MAX_TAR_BYTES }, (error, result) => {
      if (error === null) resolve(result);
      else if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE")
        reject(invalid(`Expected at most ${MAX_BYTES} bytes in all files`));
      else reject(invalid("The gzip data is damaged", error));
    });
  });

async function readTar(bytes: Buffer, collector: Collector): Promise<void> {
  for (const { header, data } of await unpackTar(bytes, { strict: true })) {
    collector.count();
    if (header.type === "directory") continue;
    if (header.type !== "file")
      throw invalid(`${shown(header.name)} is a ${header.type ?? "special file"}, not a file`);
    // Its content is a map of its holes and the data between them, and its name may be that of the map.
    if (Object.keys(header.pax ?? {}).some((key) => key.startsWith("GNU.sparse.")))
      throw invalid(`${shown(header.name)} is a sparse file. Pack it without the option --sparse`);
    await collector.add(header.name, [data ?? new Uint8Array()]);
  }
}

/** Yields the entries of a zip file. */
async function* zipEntries(zip: ZipFile): AsyncGenerator<Entry, void> {
  for (;;) {
    const entry = await new Promise<Entry | undefined>((resolve, reject) => {
      zip.once("entry", resolve);
      zip.once("end", () => resolve(undefined));
      zip.once("error", reject);
      zip.readEntry();
    });
    zip.removeAllListeners();
    if (entry === undefined) return;
    yield entry;
  }
}

async function readZip(bytes: Buffer, collector: Collector): Promise<void> {
  const zip = await new Promise<ZipFile>((resolve, reject) => {
    const options = { lazyEntries: true, strictFileNames: true, validateEntrySizes: true } as const;
    fromBuffer(bytes, options, (error, opened) => (error === null ? resolve(opened) : reject(error)));
  });
  for await (const entry of zipEntries(zip)) {
    const name = entry.fileName;
    collector.count();
    if (name.endsWith("/")) continue;
    const type = (entry.externalFileAttributes >>> MODE_SHIFT) & FILE_TYPE_MASK;
    if (type !== 0 && type !== REGULAR_FILE && type !== DIRECTORY)
      throw invalid(`${shown(name)} is not a regular file`);
    if ((entry.generalPurposeBitFlag & ENCRYPTED_FLAG) !== 0) throw invalid(`${shown(name)} is encrypted`);
    if (entry.uncompressedSize > MAX_BYTES) throw invalid(`Expected at most ${MAX_BYTES} bytes in all files`);
    const stream = await new Promise<AsyncIterable<Uint8Array>>((resolve, reject) => {
      zip.openReadStream(entry, (error, opened) => (error === null ? resolve(opened) : reject(error)));
    });
    await collector.add(name, stream);
  }
}

/**
 * Unpacks an archive.
 * @throws {ToolError} PARAM_INVALID, which names what is wrong
 */
export async function unpackArchive(bytes: Buffer): Promise<Files> {
  const collector = new Collector();
  const isGzip = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const isZip = bytes.subarray(0, 2).toString("latin1") === "PK";
  if (!isGzip && !isZip) throw invalid("Expected a .tar.gz or .zip file");
  try {
    if (isGzip) await readTar(await gunzipLimited(bytes), collector);
    else await readZip(bytes, collector);
  } catch (thrown) {
    if (thrown instanceof ToolError) throw thrown;
    const why = isGzip ? "" : `: ${shown((thrown as Error).message)}`;
    throw invalid(`The ${isGzip ? "tar" : "zip"} data is damaged, or has a path that is not plain${why}`, thrown);
  }
  return collector.finish();
}
