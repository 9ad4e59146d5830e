// Bundles the data files that a package reads relative to its own code. It finds the expressions that name them, reads the files from the
// package's folder, and adds them to the bundle for the guest's in-memory file system.
import { lstatSync, readdirSync } from "node:fs";
import { dirname, extname, join, resolve } from "node:path";
import { isDirectory, isInside, realPathOf } from "../locate/contained-file.ts";
import type { PackageStore } from "../locate/package-store.ts";

/** Maximum bytes and files of a folder that is bundled as a whole, because the code computes which file it reads. */
const MAX_FOLDER_BYTES = 12 * 1024 * 1024;
const MAX_FOLDER_FILES = 2_000;
/** Extensions of code and documentation, which are not data. */
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

/** A path that code builds from its own location. */
export interface DataReference {
  /** Relative to the module's folder. */
  readonly path: string;
  /** True if the code appends a part that is known only at run time. */
  readonly isPrefix: boolean;
  /** True if the code reads this very file, also where it is code: uglify-js evaluates the text of its own modules. */
  readonly isExact?: true;
}

/** Pattern of a string literal without substitutions. \x60 is the backtick. */
const STRING = String.raw`"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\x60[^\x60\\$]*\x60`;
const unquote = (literal: string): string => literal.slice(1, -1).replace(/\\(.)/g, "$1");

/** Matches variables that hold the module's folder, as ES modules declare them. */
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

/** Finds a literal that is the fallback of a path argument: `resolve(__dirname, process.env.DATA || "../data")`. */
function* findDefaults(text: string, folder: string): Generator<DataReference> {
  for (const match of text.matchAll(
    new RegExp(`${folder}\\s*,\\s*[\\w$.|?\\s]{1,200}(?:\\|\\||\\?\\?)\\s*(${STRING})`, "g"),
  ))
    yield { path: unquote(match[1] ?? ""), isPrefix: false };
}

const READS_FILES = /\breadFile(?:Sync)?\b/;

/** Finds what `require.resolve()` names, in a module that reads files. */
function* findResolved(text: string): Generator<DataReference> {
  if (!READS_FILES.test(text)) return;
  for (const match of text.matchAll(new RegExp(`\\brequire\\.resolve\\(\\s*(${STRING})\\s*\\)`, "g"))) {
    const path = unquote(match[1] ?? "");
    if (/^\.\.?\//.test(path)) yield { path, isPrefix: false, isExact: true };
  }
}

/** What Rollup writes for `import.meta.url` in a CommonJS module. */
const COMMON_JS_URL = String.raw`\(*\s*typeof document\s*===?\s*["']undefined["']`;

/** Finds what `new URL()` names, relative to the module. */
function* findUrls(text: string): Generator<DataReference> {
  const base = `(?:import\\.meta\\.url\\s*\\)|${COMMON_JS_URL})`;
  for (const match of text.matchAll(new RegExp(`new\\s+URL\\(\\s*(${STRING})\\s*,\\s*${base}`, "g")))
    yield { path: unquote(match[1] ?? ""), isPrefix: false };
}

/** Finds the WebAssembly module that Emscripten's code reads from its own folder. */
function* findWasm(text: string): Generator<DataReference> {
  const pattern = new RegExp(`\\b(?:wasmBinaryFile\\s*=\\s*|locateFile\\(\\s*)(${STRING})`, "g");
  for (const match of text.matchAll(pattern)) {
    const path = unquote(match[1] ?? "");
    if (/^[\w.-]+\.wasm$/.test(path)) yield { path, isPrefix: false };
  }
}

/** Returns the data files that the text of a module names. */
export function findDataReferences(text: string): readonly DataReference[] {
  const variables = [...text.matchAll(FOLDER_VARIABLE)].map(([, name = ""]) => name.replaceAll("$", "\\$"));
  const found = [
    "\\b__dirname",
    "\\bimport\\.meta\\.dirname",
    ...variables.map((name) => `(?<![\\w$.])${name}`),
  ].flatMap((folder) => [...findAdded(text, folder), ...findDefaults(text, folder)]);
  found.push(...findUrls(text), ...findWasm(text));
  const requires = [...text.matchAll(REQUIRE_VARIABLE)].map(([, name = ""]) => name.replaceAll("$", "\\$"));
  for (const name of [...requires, "createRequire\\(\\s*import\\.meta\\.url\\s*\\)"]) {
    for (const match of text.matchAll(new RegExp(`${name}\\(\\s*(${STRING})\\s*\\)`, "g"))) {
      const path = unquote(match[1] ?? "");
      if (/^\.\.?\/.*\.json$/.test(path)) found.push({ path, isPrefix: false });
    }
  }
  found.push(...findResolved(text));
  return found;
}

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

function filesIn(folder: string, maxFiles: number): readonly string[] {
  const files: string[] = [];
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isFile() || NON_DATA_EXTENSIONS.has(extname(entry.name)) || path.includes(`${folder}/node_modules/`))
      continue;
    files.push(path);
    if (files.length > maxFiles) return [];
  }
  return files.sort();
}

export interface DataFile {
  /** Path in the guest's file system. */
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

  /** Folders of the modules that name data files. They must exist, because a path such as "lib/../data" leads through them. */
  get folders(): readonly string[] {
    return [...this.#folders];
  }

  get bytes(): number {
    return this.files.reduce((sum, { contents }) => sum + contents.length, 0);
  }

  /**
   * Adds the data files that one module of a package names.
   * @throws {BuildIssueError} when the files exceed a limit
   */
  add(module: string, text: string): void {
    const root = this.#store.packageOf(module)?.folder;
    const guestPath = this.#store.guestPath(dirname(module));
    if (root === undefined || guestPath === undefined) return;
    const references = findDataReferences(text);
    if (references.length > 0) this.#folders.add(guestPath);
    for (const { path, isPrefix, isExact } of references) {
      if (path.includes("\0")) continue;
      const target = resolve(dirname(module), path.startsWith("/") ? `.${path}` : path);
      // A path that leaves the package is not bundled.
      if (!isInside(root, target)) continue;
      if (isExact) this.#addFile(root, target, true);
      else if (isDirectory(target)) this.#addFolder(root, target);
      else if (isPrefix) this.#addFolder(root, dirname(target));
      else this.#addFile(root, target);
    }
  }

  #addFile(root: string, path: string, mayBeCode = false): void {
    if (this.#files.has(path) || (!mayBeCode && NON_DATA_EXTENSIONS.has(extname(path)))) return;
    const contents = this.#store.loadData(root, path);
    const guestPath = this.#store.guestPath(path);
    if (contents !== undefined && guestPath !== undefined) this.#files.set(path, { path: guestPath, contents });
  }

  /** Adds all files of a folder unless they are too large. The package's root is skipped, because it contains the code. */
  #addFolder(root: string, folder: string): void {
    if (folder === root || !isDirectory(folder)) return;
    // A link in a package could lead anywhere on the host.
    const realPath = realPathOf(folder);
    if (realPath === undefined || !isInside(root, realPath)) return;
    const files = filesIn(realPath, MAX_FOLDER_FILES);
    const bytes = files.reduce((sum, file) => sum + (lstatSync(file, { throwIfNoEntry: false })?.size ?? 0), 0);
    if (bytes > MAX_FOLDER_BYTES) return;
    for (const file of files) this.#addFile(root, file);
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
