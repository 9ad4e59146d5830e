// Locates and reads the files of a Python tool. No code is run or compiled here.
import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { basename, dirname, extname, join, relative, resolve, sep } from "node:path";
import { readContainedFile, realPathOf } from "../../bundler/locate/contained-file.ts";
import { createBundleError } from "../../bundler/locate/tool-location.ts";
import { ENTRY_NAMES, PYTHON_ENTRY_NAMES, toolPathIssue } from "../../bundler/locate/tool-paths.ts";
import type { ToolBundle, ToolSource } from "../../bundler/tool-bundle.ts";
import type { Language } from "../config/tool-options.ts";
import { importedFiles } from "./python-imports.ts";

export interface PythonSource {
  /** The entry's relative path, as tracebacks show it. */
  readonly entry: string;
  readonly code: string;
  /** Further files that it may import or open, by relative path. */
  readonly files: { readonly [path: string]: string };
  /** SHA-256 of all files, in hex. */
  readonly sha256: string;
  /** Absolute paths of files that were read or looked for, to watch for changes. */
  readonly paths: readonly string[];
}

const SOURCE_NAME = "tool.py";
const MAX_FILES = 500;

const isPython = (path: string): boolean => extname(path).toLowerCase() === ".py";

function makeSource(entry: string, files: ReadonlyMap<string, string>, paths: readonly string[]): PythonSource {
  const { [entry]: code = "", ...rest } = Object.fromEntries(files);
  const sorted = Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1));
  const sha256 = createHash("sha256")
    .update(JSON.stringify([entry, code, sorted]))
    .digest("hex");
  return { entry, code, files: rest, sha256, paths };
}

function tooLarge(size: number, sourceBytes: number): Error {
  return createBundleError(
    `The tool's own files have ${size} bytes together; the limit sourceBytes is ${sourceBytes} bytes`,
  );
}

/** Rejects lone surrogates, which UTF-8 cannot encode, and NUL characters, which Python does not allow in source. */
function checkText(path: string, text: string): void {
  if (!text.isWellFormed()) throw createBundleError(`${JSON.stringify(path)} is not Unicode text`);
  const nul = isPython(path) ? text.indexOf("\0") : -1;
  if (nul < 0) return;
  const line = text.slice(0, nul).split("\n").length;
  throw createBundleError(`${JSON.stringify(path)} has a NUL character in line ${line}, which Python does not allow`);
}

function fromMemory(
  given: { readonly [path: string]: string },
  entry: string | undefined,
  sourceBytes: number,
): PythonSource {
  let size = 0;
  const files = Object.entries(given);
  if (files.length > MAX_FILES)
    throw createBundleError(`The tool has ${files.length} files; expected at most ${MAX_FILES}`);
  for (const [path, text] of files) {
    const fault = toolPathIssue(path);
    if (fault !== undefined) throw createBundleError(`The tool cannot have a file ${JSON.stringify(path)}: ${fault}`);
    checkText(path, text);
    size += Buffer.byteLength(text);
  }
  if (size > sourceBytes) throw tooLarge(size, sourceBytes);
  const found = entry ?? PYTHON_ENTRY_NAMES.find((name) => Object.hasOwn(given, name));
  const expected = `expected ${PYTHON_ENTRY_NAMES.join(" or ")}, or an entry that is named`;
  if (found === undefined) throw createBundleError("The tool's files have no entry in Python", expected);
  if (!Object.hasOwn(given, found)) throw createBundleError(`The entry ${JSON.stringify(found)} is not a file`);
  if (!isPython(found))
    throw createBundleError(`The entry ${JSON.stringify(found)} is not a Python file`, "expected .py");
  return makeSource(found, new Map(files), []);
}

/** Reads the entry and the files of its folder that it imports, each once. */
class FolderReader {
  readonly #folder: string;
  readonly #sourceBytes: number;
  readonly files = new Map<string, string>();
  readonly paths: string[] = [];
  #size = 0;

  constructor(folder: string, sourceBytes: number) {
    this.#folder = folder;
    this.#sourceBytes = sourceBytes;
  }

  readAll(entry: string): void {
    const open = [entry];
    const seen = new Set(open);
    for (let path = open.pop(); path !== undefined; path = open.pop()) {
      const code = this.#read(path, path === entry);
      if (code === undefined) continue;
      for (const next of importedFiles(path, code)) {
        if (seen.has(next)) continue;
        seen.add(next);
        open.push(next);
      }
    }
  }

  #read(path: string, isEntry: boolean): string | undefined {
    if (toolPathIssue(path) !== undefined) return undefined;
    const absolute = join(this.#folder, path);
    const read = readContainedFile([this.#folder], absolute, this.#sourceBytes - this.#size);
    if (read.kind === "too-large") throw tooLarge(this.#size + read.size, this.#sourceBytes);
    if (read.kind !== "file") {
      if (isEntry) throw createBundleError(`Cannot read ${JSON.stringify(path)}`);
      if (read.kind === "absent") this.paths.push(absolute);
      return undefined;
    }
    // A link inside the folder must not bypass the path rules, for example by leading to a hidden file.
    const fault = toolPathIssue(relative(this.#folder, read.file.realPath).split(sep).join("/"));
    if (fault !== undefined) throw createBundleError(`Cannot read ${JSON.stringify(path)}: ${fault}`);
    if (this.files.size >= MAX_FILES) throw createBundleError(`The tool has more than ${MAX_FILES} files`);
    this.#size += read.file.contents.length;
    this.paths.push(read.file.realPath);
    const text = read.file.contents.toString("utf8");
    checkText(path, text);
    this.files.set(path, text);
    return text;
  }
}

function fromFolder(folder: string, entry: string, sourceBytes: number): PythonSource {
  const reader = new FolderReader(folder, sourceBytes);
  reader.readAll(entry);
  return makeSource(entry, reader.files, reader.paths);
}

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true;

/**
 * Returns the Python entry at a path, with its real folder; undefined if the path belongs to another language or does
 * not exist.
 */
function entryAt(path: string, isExplicit: boolean): { readonly folder: string; readonly entry: string } | undefined {
  const realPath = path.includes("\0") ? undefined : realPathOf(resolve(path));
  const stats = realPath === undefined ? undefined : statSync(realPath, { throwIfNoEntry: false });
  if (realPath === undefined || stats === undefined) return undefined;
  if (stats.isFile()) {
    return isPython(realPath) ? { folder: dirname(realPath), entry: basename(realPath) } : undefined;
  }
  if (!stats.isDirectory()) return undefined;
  if (!isExplicit && ENTRY_NAMES.some((name) => isFile(join(realPath, name)))) return undefined;
  const entry = PYTHON_ENTRY_NAMES.find((name) => isFile(join(realPath, name)));
  return entry === undefined ? undefined : { folder: realPath, entry };
}

function fromPath(path: string, isExplicit: boolean, sourceBytes: number): PythonSource | undefined {
  const found = entryAt(path, isExplicit);
  if (found === undefined) {
    if (!isExplicit) return undefined;
    throw createBundleError(
      `${JSON.stringify(basename(path))} is not a Python tool`,
      `expected a file that ends in .py, or a folder with ${PYTHON_ENTRY_NAMES.join(" or ")}`,
    );
  }
  const fault = toolPathIssue(found.entry);
  if (fault !== undefined) throw createBundleError(`${JSON.stringify(found.entry)} cannot be a tool: ${fault}`);
  return fromFolder(found.folder, found.entry, sourceBytes);
}

/** Without an explicit entry, a TypeScript or JavaScript entry takes precedence. */
function hasPythonEntry(files: { readonly [path: string]: string }, entry: string | undefined): boolean {
  if (entry !== undefined) return isPython(entry);
  const has = (name: string): boolean => Object.hasOwn(files, name);
  return !ENTRY_NAMES.some(has) && PYTHON_ENTRY_NAMES.some(has);
}

/**
 * Reads the files of a Python tool, which is recognized by the explicit language or by the extension of its file or
 * entry. Returns undefined for other languages.
 * @param sourceBytes limit on all files together
 * @throws {ToolError} BUNDLE_FAILED
 */
export function locatePythonTool(
  source: ToolSource,
  language: Language | undefined,
  sourceBytes: number,
): PythonSource | undefined {
  if (language !== undefined && language !== "python") return undefined;
  const isExplicit = language === "python";
  if ("path" in source) return fromPath(source.path, isExplicit, sourceBytes);
  if ("files" in source) {
    const isPythonTool = isExplicit || hasPythonEntry(source.files, source.entry);
    return isPythonTool ? fromMemory(source.files, source.entry, sourceBytes) : undefined;
  }
  return isExplicit ? fromMemory({ [SOURCE_NAME]: source.source }, SOURCE_NAME, sourceBytes) : undefined;
}

/** Returns a bundle record like that of any tool. Its source map contains the files and maps nothing. */
export function toPythonBundle({ entry, code, files, sha256 }: PythonSource): ToolBundle {
  const all = Object.entries({ [entry]: code, ...files });
  const inputs = all.map(([path, text]) => ({ path, bytes: Buffer.byteLength(text) }));
  const sourceMap = {
    version: 3,
    sources: all.map(([path]) => path),
    sourcesContent: all.map(([, text]) => text),
    names: [],
    mappings: "",
  };
  return {
    sha256,
    code,
    sourceMap: JSON.stringify(sourceMap),
    entry,
    exports: [],
    inputs: inputs.sort((a, b) => b.bytes - a.bytes),
    packages: [],
    dynamicCode: [],
  };
}
