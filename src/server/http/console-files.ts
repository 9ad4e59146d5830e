// Reads the files of the console, which the build has compressed, into memory.
import { readdir, readFile } from "node:fs/promises";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliDecompress } from "node:zlib";

/** Folder into which the build puts the console: next to the compiled server, and in the cache for a server that runs from its sources. */
const FOLDER = import.meta.url.endsWith(".ts") ? "../../../node_modules/.cache/glovebox/console" : "../../console";
const TYPES: { readonly [extension: string]: string } = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};
const COMPRESSED = ".br";

const decompress = promisify(brotliDecompress);

export class ConsoleFile {
  /** Compressed with brotli. */
  readonly compressed: Uint8Array<ArrayBuffer>;
  readonly type: string;
  #bytes: Promise<Uint8Array<ArrayBuffer>> | undefined;

  constructor(compressed: Uint8Array<ArrayBuffer>, type: string) {
    this.compressed = compressed;
    this.type = type;
  }

  /** Returns the file for a client that does not accept brotli. Browsers accept it over HTTPS and on the same machine only. */
  async bytes(): Promise<Uint8Array<ArrayBuffer>> {
    this.#bytes ??= decompress(this.compressed).then((bytes) => new Uint8Array(bytes));
    return await this.#bytes;
  }
}
/** By path below `/console/`. */
export type ConsoleFiles = ReadonlyMap<string, ConsoleFile>;

async function readFolder(folder: string): Promise<ConsoleFiles | undefined> {
  const found = await readdir(folder, { recursive: true }).catch((): string[] => []);
  const names = found.filter((name) => name.endsWith(COMPRESSED)).map((name) => name.slice(0, -COMPRESSED.length));
  if (!names.includes("index.html")) return undefined;
  const files = names.filter((name) => extname(name) in TYPES);
  const read = files.map(async (name): Promise<[string, ConsoleFile]> => {
    const compressed = new Uint8Array(await readFile(`${folder}/${name}${COMPRESSED}`));
    return [name.replaceAll("\\", "/"), new ConsoleFile(compressed, TYPES[extname(name)] ?? "")];
  });
  return new Map(await Promise.all(read));
}

/** Reads the files of the console; undefined if they were not built. */
export const readConsoleFiles = (): Promise<ConsoleFiles | undefined> =>
  readFolder(fileURLToPath(new URL(FOLDER, import.meta.url)));
