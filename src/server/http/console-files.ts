// Reads the files of the console, which the build has made, into memory.
import { readdir, readFile } from "node:fs/promises";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, constants } from "node:zlib";

/** Where the build puts the console: next to the compiled server, and in the cache for a server that runs from its sources. */
const FOLDER = import.meta.url.endsWith(".ts") ? "../../../node_modules/.cache/glovebox/console" : "../../console";
const TYPES: { readonly [extension: string]: string } = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};
interface ConsoleFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly compressed: Uint8Array<ArrayBuffer>;
  readonly type: string;
}
/** By path below `/console/`. */
export type ConsoleFiles = ReadonlyMap<string, ConsoleFile>;

const compress = promisify(brotliCompress);

async function readFolder(folder: string): Promise<ConsoleFiles | undefined> {
  const names = await readdir(folder, { recursive: true }).catch((): string[] => []);
  if (!names.includes("index.html")) return undefined;
  const files = names.filter((name) => extname(name) in TYPES);
  const read = files.map(async (name): Promise<[string, ConsoleFile]> => {
    const bytes = new Uint8Array(await readFile(`${folder}/${name}`));
    const compressed = new Uint8Array(await compress(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 6 } }));
    return [name.replaceAll("\\", "/"), { bytes, compressed, type: TYPES[extname(name)] ?? "" }];
  });
  return new Map(await Promise.all(read));
}

/** Reads the files of the console; undefined if they were not built. */
export const readConsoleFiles = (): Promise<ConsoleFiles | undefined> =>
  readFolder(fileURLToPath(new URL(FOLDER, import.meta.url)));
