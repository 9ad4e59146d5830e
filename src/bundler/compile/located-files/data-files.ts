// Bundles the data files that a package or a tool's folder reads relative to its own code: reads what data-references.ts finds, within the
// package's or the tool's folder, and adds it to the bundle for the guest's in-memory file system.
import { dirname, extname, resolve } from "node:path";
import { isInside } from "../../locate/contained-file.ts";
import { type DataReference, findDataReferences } from "./data-references.ts";

/** Maximum bytes and files of a folder that is bundled as a whole, because the code computes which file it reads. */
const MAX_FOLDER_BYTES = 12 * 1024 * 1024;
const MAX_FOLDER_FILES = 2_000;
/** The same for the folder of a whole package or tool, which also contains files that the code does not read, and for all of these together. */
const MAX_ROOT_BYTES = 1024 * 1024;
const MAX_ROOT_FILES = 200;
const MAX_ALL_ROOTS_BYTES = 4 * 1024 * 1024;
/** Extensions of code and documentation. Such a file is bundled only if the code names it. */
const NON_DATA_EXTENSIONS = new Set([
  ".js",
  ".mjs",
  ".cjs",
  ".jsx",
  ".ts",
  ".mts",
  ".cts",
  ".tsx",
  ".map",
  ".node",
  ".md",
]);
/** Files and folders of a package that are not for the code that runs. */
const NOT_FOR_RUNTIME =
  /^(?:\.|node_modules$|(?:tests?|__tests__|docs?|examples?|benchmarks?|coverage)$|licen[cs]e|changelog|notice)/i;

/** Pattern of a string literal without substitutions. \x60 is the backtick. */
const STRING = String.raw`"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\x60[^\x60\\$]*\x60`;

/** Matches `const load = createRequire(import.meta.url)` and the CommonJS output of bundlers for it. */
const OWN_REQUIRE =
  /\b(?:const|let|var)\s+([\w$]+)\s*=\s*(?:[\w$]+\.)?createRequire\([^;\n]{0,400}?(?:import\.meta\.url|__filename)[^;\n]*/;
/** Replaces the name of a module's own `require`, so that `require` means the bundler's. */
const RENAMED = "__glovebox_own_require";

/** Lets esbuild bundle what a module loads through its own `require` with a literal. */
export function bundleOwnRequire(text: string): string {
  const [, name] = OWN_REQUIRE.exec(text) ?? [];
  if (name === undefined) return text;
  const pattern = name.replaceAll("$", "\\$");
  const ownName = name === "require" ? RENAMED : name;
  // Matches a call, a member access or the declaration, but not the name in a comment.
  const used = text.replace(new RegExp(`(?<![\\w$.])${pattern}(?=\\s*[(.=](?!=))`, "g"), () => ownName);
  const call = new RegExp(`(?<![\\w$.])${ownName.replaceAll("$", "\\$")}\\(\\s*(${STRING})\\s*\\)`, "g");
  return used.replace(call, (_, literal: string) => `require(${literal})`);
}

export interface DataFile {
  /** Path in the guest's file system. */
  readonly path: string;
  readonly contents: Buffer;
}

/** The package or the tool that a module belongs to, and how its files are read. Paths are absolute. */
export interface DataOwner {
  /** Real path of its folder. */
  readonly folder: string;
  /** Returns the path in the guest's file system. */
  guestPath(path: string): string | undefined;
  /** Returns undefined if there is no such file, or if it may not be read. */
  read(path: string): Buffer | undefined;
  isFolder(path: string): boolean;
  /** Lists all files below a folder that are not code, with their total size. Returns undefined if there are more than `maxFiles`. */
  list(folder: string, maxFiles: number, isWanted: (name: string) => boolean): FolderFiles | undefined;
}

export interface FolderFiles {
  readonly paths: readonly string[];
  readonly bytes: number;
}

export class DataFiles {
  readonly #files = new Map<string, DataFile>();
  readonly #folders = new Set<string>();
  readonly #whole = new Set<string>();
  #rootBytesLeft: number;

  /** @param spareBytes what may be bundled in addition to the code; folders of whole packages are left out beyond that */
  constructor(spareBytes: number) {
    this.#rootBytesLeft = Math.min(MAX_ALL_ROOTS_BYTES, spareBytes);
  }

  get files(): readonly DataFile[] {
    return [...this.#files.values()];
  }

  /** Folders of the modules that name data files. They must exist, because a path such as "lib/../data" leads through them. */
  get folders(): readonly string[] {
    return [...this.#folders];
  }

  get bytes(): number {
    return this.files.reduce((sum, { contents }) => sum + contents.length, 0);
  }

  /**
   * Adds the data files that one module of a package or a tool names.
   * @param module absolute path
   * @param text JavaScript
   * @throws {BuildIssueError} when the files exceed a limit
   */
  add(owner: DataOwner, module: string, text: string): void {
    const guestPath = owner.guestPath(dirname(module));
    if (guestPath === undefined) return;
    const references = findDataReferences(text, module);
    if (references.length > 0) this.#folders.add(guestPath);
    for (const reference of references) this.#addReference(owner, reference);
  }

  #addReference(owner: DataOwner, { path, isPrefix, isExact }: DataReference): void {
    const target = resolve(path);
    // A path that leaves the package or the tool is not bundled.
    if (path.includes("\0") || !isInside(owner.folder, target)) return;
    if (owner.isFolder(target)) this.#addFolder(owner, target);
    else if (isPrefix) this.#addFolder(owner, dirname(target));
    else this.#addFile(owner, target, isExact);
  }

  #addFile(owner: DataOwner, path: string, mayBeCode = false): void {
    if (this.#files.has(path) || (!mayBeCode && NON_DATA_EXTENSIONS.has(extname(path)))) return;
    const contents = owner.read(path);
    const guestPath = owner.guestPath(path);
    if (contents !== undefined && guestPath !== undefined) this.#files.set(path, { path: guestPath, contents });
  }

  /** Adds the data files of a folder unless they are too large. A folder that was added adds nothing again. */
  #addFolder(owner: DataOwner, folder: string): void {
    const guestPath = owner.guestPath(folder);
    if (guestPath === undefined || this.#whole.has(guestPath) || !isInside(owner.folder, folder)) return;
    this.#whole.add(guestPath);
    const isRoot = resolve(folder) === owner.folder;
    const isWanted = (name: string) =>
      !(isRoot && NOT_FOR_RUNTIME.test(name)) && !NON_DATA_EXTENSIONS.has(extname(name));
    const files = owner.list(folder, isRoot ? MAX_ROOT_FILES : MAX_FOLDER_FILES, isWanted);
    if (
      files === undefined ||
      files.bytes > (isRoot ? Math.min(MAX_ROOT_BYTES, this.#rootBytesLeft) : MAX_FOLDER_BYTES)
    )
      return;
    if (isRoot) this.#rootBytesLeft -= files.bytes;
    for (const file of files.paths) this.#addFile(owner, file);
  }
}

/** Returns JSON in ASCII, so that V8 stores the bundle with one byte per character. */
function toAsciiJson(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function isUtf8(contents: Buffer): boolean {
  return Buffer.from(contents.toString("utf8")).equals(contents);
}

/** Returns the data files as an object literal: a string for UTF-8, `[base64]` for other content, and null for a folder. */
export function dataFilesText({ files, folders }: DataFiles): string {
  const entries = files.map(({ path, contents }) => {
    const value = isUtf8(contents) ? toAsciiJson(contents.toString("utf8")) : `["${contents.toString("base64")}"]`;
    return `${toAsciiJson(path)}:${value}`;
  });
  return `{__proto__:null,${[...folders.map((path) => `${toAsciiJson(path)}:null`), ...entries].join(",")}}`;
}
