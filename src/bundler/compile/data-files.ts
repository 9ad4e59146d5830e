// Data files that a package reads relative to its own code: found by the expressions that name them, read from the package's own folder,
// and put into the bundle for the guest's in-memory file system.
import { lstatSync, readdirSync } from "node:fs";
import { dirname, extname, join, resolve } from "node:path";
import { isDirectory, isInside, realPathOf } from "../locate/contained-file.ts";
import type { PackageStore } from "../locate/package-store.ts";

/** Most bytes and files that are taken of a folder of which the code does not say which file it reads. */
const MAX_FOLDER_BYTES = 12 * 1024 * 1024;
const MAX_FOLDER_FILES = 2_000;
/** Files that a package runs or documents itself with. */
const NO_DATA = new Set([".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".map", ".node", ".md"]);

/** A path that code makes from its own place. */
export interface DataReference {
  /** Relative to the module's folder. */
  readonly path: string;
  /** Whether the path goes on with what is known only when the code runs. */
  readonly isPrefix: boolean;
}

/** A string literal without substitutions, as a pattern; \x60 is the backtick. */
const STRING = String.raw`"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\x60[^\x60\\$]*\x60`;
const unquote = (literal: string): string => literal.slice(1, -1).replace(/\\(.)/g, "$1");

/** Variables that hold the module's folder, as ES modules make them. */
const FOLDER_VARIABLE =
  /\b(?:const|let|var)\s+([\w$]+)\s*=[^;\n]{0,200}?dirname\(\s*[\w$.]*fileURLToPath\(\s*import\.meta\.url\s*\)\s*\)/g;
const REQUIRE_VARIABLE = /\b([\w$]+)\s*=\s*[\w$.]*createRequire\(/g;

function* findAdded(text: string, folder: string): Generator<DataReference> {
  // __dirname + "/data/x" and __dirname + "/data/" + name
  for (const match of text.matchAll(new RegExp(`${folder}\\s*\\+\\s*(${STRING})(\\s*\\+)?`, "g")))
    yield { path: unquote(match[1] ?? ""), isPrefix: match[2] !== undefined };
  // `${__dirname}/data/x`
  for (const match of text.matchAll(new RegExp(`\\$\\{\\s*${folder}\\s*\\}([^\`$\\\\]*)(\\$\\{)?`, "g")))
    yield { path: match[1] ?? "", isPrefix: match[2] !== undefined };
  // join(__dirname, "..", "data", name)
  for (const match of text.matchAll(new RegExp(`${folder}((?:\\s*,\\s*(?:${STRING}))+)\\s*(,)?`, "g"))) {
    const parts = [...(match[1] ?? "").matchAll(new RegExp(STRING, "g"))].map(([literal]) => unquote(literal));
    yield { path: parts.join("/"), isPrefix: match[2] !== undefined };
  }
}

/**
 * Path arguments that are alternatives to a literal: `resolve(__dirname, process.env.DATA || "../data")`.
 */
function* findDefaults(text: string, folder: string): Generator<DataReference> {
  for (const match of text.matchAll(
    new RegExp(`${folder}\\s*,\\s*[\\w$.|?\\s]{1,200}(?:\\|\\||\\?\\?)\\s*(${STRING})`, "g"),
  ))
    yield { path: unquote(match[1] ?? ""), isPrefix: false };
}

/** The data files that a module's text names. */
export function findDataReferences(text: string): readonly DataReference[] {
  const variables = [...text.matchAll(FOLDER_VARIABLE)].map(([, name = ""]) => name.replaceAll("$", "\\$"));
  const found = [
    "\\b__dirname",
    "\\bimport\\.meta\\.dirname",
    ...variables.map((name) => `(?<![\\w$.])${name}`),
  ].flatMap((folder) => [...findAdded(text, folder), ...findDefaults(text, folder)]);
  for (const match of text.matchAll(new RegExp(`new\\s+URL\\(\\s*(${STRING})\\s*,\\s*import\\.meta\\.url\\s*\\)`, "g")))
    found.push({ path: unquote(match[1] ?? ""), isPrefix: false });
  const requires = [...text.matchAll(REQUIRE_VARIABLE)].map(([, name = ""]) => name.replaceAll("$", "\\$"));
  for (const name of [...requires, "createRequire\\(\\s*import\\.meta\\.url\\s*\\)"]) {
    for (const match of text.matchAll(new RegExp(`${name}\\(\\s*(${STRING})\\s*\\)`, "g"))) {
      const path = unquote(match[1] ?? "");
      if (/^\.\.?\/.*\.json$/.test(path)) found.push({ path, isPrefix: false });
    }
  }
  return found;
}

/** `const load = createRequire(import.meta.url)`, and what bundlers make of it in CommonJS. */
const OWN_REQUIRE =
  /\b(?:const|let|var)\s+([\w$]+)\s*=\s*(?:[\w$]+\.)?createRequire\([^;\n]{0,400}?(?:import\.meta\.url|__filename)[^;\n]*/;
/** Stands for a module's own `require`, so that `require` is the bundler's. */
const RENAMED = "__glovebox_own_require";

/** Lets esbuild bundle what a module loads by a `require` of its own, where that is a literal. */
export function bundleOwnRequire(text: string): string {
  const [, name] = OWN_REQUIRE.exec(text) ?? [];
  if (name === undefined) return text;
  const pattern = name.replaceAll("$", "\\$");
  const ownName = name === "require" ? RENAMED : name;
  // A call, a member, or the declaration; not the word in a comment.
  const used = text.replace(new RegExp(`(?<![\\w$.])${pattern}(?=\\s*[(.=](?!=))`, "g"), () => ownName);
  const call = new RegExp(`(?<![\\w$.])${ownName.replaceAll("$", "\\$")}\\(\\s*(${STRING})\\s*\\)`, "g");
  return used.replace(call, (_, literal: string) => `require(${literal})`);
}

function filesIn(folder: string, most: number): readonly string[] {
  const files: string[] = [];
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isFile() || NO_DATA.has(extname(entry.name)) || path.includes(`${folder}/node_modules/`)) continue;
    files.push(path);
    if (files.length > most) return [];
  }
  return files.sort();
}

export interface DataFile {
  /** Path in the file system of the guest. */
  readonly path: string;
  readonly contents: Buffer;
}

export class DataFiles {
  readonly #store: PackageStore;
  readonly #files = new Map<string, DataFile>();
  readonly #folders = new Set<string>();

  constructor(store: PackageStore) {
    this.#store = store;
  }

  get files(): readonly DataFile[] {
    return [...this.#files.values()];
  }

  /** Folders of the modules that name data files: "lib/../data" leads through them. */
  get folders(): readonly string[] {
    return [...this.#folders];
  }

  get bytes(): number {
    return this.files.reduce((sum, { contents }) => sum + contents.length, 0);
  }

  /**
   * Takes what one module of a package names.
   * @throws {BuildIssueError} when the files pass a limit
   */
  add(module: string, text: string): void {
    const root = this.#store.packageOf(module)?.folder;
    const shown = this.#store.guestPath(dirname(module));
    if (root === undefined || shown === undefined) return;
    const references = findDataReferences(text);
    if (references.length > 0) this.#folders.add(shown);
    for (const { path, isPrefix } of references) {
      if (path.includes("\0")) continue;
      const target = resolve(dirname(module), path.startsWith("/") ? `.${path}` : path);
      // A path that leaves the package is not bundled.
      if (!isInside(root, target)) continue;
      if (isDirectory(target)) this.#addFolder(root, target);
      else if (isPrefix) this.#addFolder(root, dirname(target));
      else this.#addFile(root, target);
    }
  }

  #addFile(root: string, path: string): void {
    if (this.#files.has(path) || NO_DATA.has(extname(path))) return;
    const contents = this.#store.loadData(root, path);
    const shown = this.#store.guestPath(path);
    if (contents !== undefined && shown !== undefined) this.#files.set(path, { path: shown, contents });
  }

  /** All of a folder, unless that is too much; the package's root is its code. */
  #addFolder(root: string, folder: string): void {
    if (folder === root || !isDirectory(folder)) return;
    // A link in a package could lead anywhere.
    const realPath = realPathOf(folder);
    if (realPath === undefined || !isInside(root, realPath)) return;
    const files = filesIn(realPath, MAX_FOLDER_FILES);
    const bytes = files.reduce((sum, file) => sum + (lstatSync(file, { throwIfNoEntry: false })?.size ?? 0), 0);
    if (bytes > MAX_FOLDER_BYTES) return;
    for (const file of files) this.#addFile(root, file);
  }
}

/** JSON of ASCII, so that a bundle stays text of one byte a character. */
function toAsciiJson(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function isUtf8(contents: Buffer): boolean {
  return Buffer.from(contents.toString("utf8")).equals(contents);
}

/** The data files as an object literal: text for what is UTF-8, `[base64]` for what is not, and null for a folder. */
export function dataFilesText({ files, folders }: DataFiles): string {
  const entries = files.map(({ path, contents }) => {
    const value = isUtf8(contents) ? toAsciiJson(contents.toString("utf8")) : `["${contents.toString("base64")}"]`;
    return `${toAsciiJson(path)}:${value}`;
  });
  return `{__proto__:null,${[...folders.map((path) => `${toAsciiJson(path)}:null`), ...entries].join(",")}}`;
}
