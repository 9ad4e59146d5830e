// Locates a tool and its package stores: turns a ToolSource into real paths before any file of the tool is read.
import { realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { ToolFilesLocation } from "../compile/child/build-messages.ts";
import type { BundleLimits, ToolSource } from "../tool-bundle.ts";
import { isDirectory, isInside, realPathOf } from "./contained-file.ts";
import { ENTRY_NAMES, FILE_LOADERS, loaderOf, toolPathIssue } from "./tool-paths.ts";

export interface StoreOptions {
  /** Folder above which no package is looked up. @default the working directory if it contains the tool, otherwise the tool's folder */
  readonly root?: string | undefined;
  /** A folder named `node_modules`, or the folder that contains it. @default each one from the tool's folder up to `root` */
  readonly packagesDir?: string | undefined;
  /** Folders in addition to the store in which linked packages may lie. */
  readonly linkedPackages?: readonly string[] | undefined;
}

export interface ToolLocation {
  readonly files: ToolFilesLocation;
  readonly entry: string;
  readonly stores: readonly string[];
  /** Real paths of the folders in which linked packages may lie. */
  readonly linked: readonly string[];
  readonly isScript: boolean;
  /** Whether the tool was given as one text, for which there is the option `mode`. */
  readonly maySetMode: boolean;
  /** Missing paths that would change the result if they appeared: better entries, nearer stores. */
  readonly absent: readonly string[];
}

interface FilesAndEntry {
  readonly files: ToolFilesLocation;
  readonly entry: string;
  readonly absent: readonly string[];
}

export function createBundleError(message: string, hint?: string): ToolError {
  const text = hint === undefined ? message : `${message}; ${hint}`;
  const problem = hint === undefined ? { message } : { message, hint };
  return new ToolError("BUNDLE_FAILED", text, { details: { problems: [problem] } });
}

const ENTRY_HINT = `expected one of ${ENTRY_NAMES.join(", ")}, or, for Python, tool.py or main.py`;

function isEntry(path: string): boolean {
  const loader = loaderOf(path);
  return loader !== undefined && loader !== "json";
}

function checkEntry(entry: string): void {
  if (isEntry(entry)) return;
  const known = Object.keys(FILE_LOADERS)
    .filter((extension) => isEntry(`tool${extension}`))
    .join(" ");
  throw createBundleError(
    `The entry ${JSON.stringify(entry)} is not a TypeScript or JavaScript file`,
    `expected a file that ends in one of ${known}${entry.endsWith(".py") ? "" : ", or in .py for Python"}`,
  );
}

function locateFiles(files: { readonly [path: string]: string }, entry: string | undefined): FilesAndEntry {
  const paths = Object.keys(files);
  if (paths.length === 0) throw createBundleError("The tool has no files", ENTRY_HINT);
  for (const path of paths) {
    const fault = toolPathIssue(path);
    if (fault !== undefined) throw createBundleError(`The tool cannot have a file ${JSON.stringify(path)}: ${fault}`);
  }
  const found = entry ?? ENTRY_NAMES.find((name) => Object.hasOwn(files, name));
  const some = `the files are ${paths.slice(0, 20).join(", ")}`;
  if (found === undefined) throw createBundleError("The tool's files have no entry", `${ENTRY_HINT}; ${some}`);
  if (!Object.hasOwn(files, found)) throw createBundleError(`The entry ${JSON.stringify(found)} is not a file`, some);
  checkEntry(found);
  return { files: { kind: "memory", files: { ...files } }, entry: found, absent: [] };
}

function locateFolder(folder: string): FilesAndEntry {
  const absent: string[] = [];
  for (const entry of ENTRY_NAMES) {
    const path = join(folder, entry);
    if (statSync(path, { throwIfNoEntry: false })?.isFile())
      return { files: { kind: "folder", folder, isWhole: true }, entry, absent };
    absent.push(path);
  }
  throw createBundleError(`The folder ${JSON.stringify(basename(folder))} has no entry`, ENTRY_HINT);
}

function locatePath(path: string): FilesAndEntry {
  const name = JSON.stringify(basename(path));
  const realPath = path.includes("\0") ? undefined : realPathOf(resolve(path));
  const stats = realPath === undefined ? undefined : statSync(realPath, { throwIfNoEntry: false });
  if (realPath === undefined || stats === undefined) throw createBundleError(`There is no file or folder ${name}`);
  if (stats.isDirectory()) return locateFolder(realPath);
  if (!stats.isFile()) throw createBundleError(`${name} is neither a file nor a folder`);
  const entry = basename(realPath);
  checkEntry(entry);
  const fault = toolPathIssue(entry);
  if (fault !== undefined) throw createBundleError(`${name} cannot be a tool: ${fault}`);
  return { files: { kind: "folder", folder: dirname(realPath) }, entry, absent: [] };
}

/** esbuild, like Node, finds dependencies by walking up the real path, which works only in a folder named `node_modules`. */
function isStore(realPath: string): boolean {
  return basename(realPath) === "node_modules" && isDirectory(realPath);
}

function namedStore(path: string): readonly string[] {
  const folder = resolve(path);
  const store = basename(folder) === "node_modules" ? folder : join(folder, "node_modules");
  const realPath = realPathOf(store);
  if (realPath === undefined) return [];
  if (!isStore(realPath)) throw createBundleError("The package store must be a folder whose real name is node_modules");
  return [realPath];
}

function searchRoot(root: string | undefined, folder: string): string {
  if (root === undefined) {
    const workingDirectory = realpathSync(process.cwd());
    return isInside(workingDirectory, folder) ? workingDirectory : folder;
  }
  const realRoot = realPathOf(resolve(root));
  if (realRoot === undefined) throw createBundleError("The root folder for tools does not exist");
  if (!isInside(realRoot, folder)) throw createBundleError("The tool lies outside the root folder for tools");
  return realRoot;
}

/**
 * Returns the `node_modules` folders from `folder` up to `root`. In the tool's own folder a symlink is ignored: the tool may have made it.
 */
function findStores(folder: string, root: string, toolFolder?: string): Pick<ToolLocation, "stores" | "absent"> {
  const stores: string[] = [];
  const absent: string[] = [];
  for (let at = folder; isInside(root, at); at = dirname(at)) {
    const store = join(at, "node_modules");
    const realPath = realPathOf(store);
    if (realPath === undefined) absent.push(store);
    else if (isStore(realPath) && (at !== toolFolder || realPath === store)) stores.push(realPath);
    if (at === dirname(at)) break;
  }
  return { stores, absent };
}

function searchStores(files: ToolFilesLocation, root: string | undefined): Pick<ToolLocation, "stores" | "absent"> {
  if (files.kind === "folder") return findStores(files.folder, searchRoot(root, files.folder), files.folder);
  const folder = realPathOf(resolve(root ?? process.cwd()));
  if (folder === undefined) throw createBundleError("The root folder for tools does not exist");
  return findStores(folder, folder);
}

function filesAndEntryOf(source: ToolSource): FilesAndEntry {
  if ("path" in source) return locatePath(source.path);
  if ("files" in source) return locateFiles(source.files, source.entry);
  const entry = source.mode === "script" ? "tool.js" : "tool.ts";
  return locateFiles({ [entry]: source.source }, entry);
}

function checkSize(files: ToolFilesLocation, limits: BundleLimits): void {
  if (files.kind === "folder") return;
  const size = Object.values(files.files).reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  if (size <= limits.sourceBytes) return;
  throw createBundleError(
    `The tool's own files have ${size} bytes together; the limit sourceBytes is ${limits.sourceBytes} bytes`,
  );
}

/** Rejects a folder that does not exist, and the root of the file system, which would allow every file. */
function locateLinked(folders: readonly string[] | undefined): readonly string[] {
  return (folders ?? []).map((folder) => {
    const realPath = realPathOf(resolve(folder));
    const name = JSON.stringify(basename(resolve(folder)));
    if (realPath === undefined || !isDirectory(realPath)) {
      throw createBundleError(`The folder ${name} of bundler.linkedPackages does not exist`);
    }
    if (realPath === dirname(realPath)) {
      throw createBundleError(
        "bundler.linkedPackages cannot name the root of the file system",
        "name the packages' own folder",
      );
    }
    return realPath;
  });
}

/** @throws {ToolError} BUNDLE_FAILED when the source names no tool */
export function locateTool(source: ToolSource, options: StoreOptions, limits: BundleLimits): ToolLocation {
  const found = filesAndEntryOf(source);
  checkSize(found.files, limits);
  const maySetMode = "source" in source;
  const isScript = maySetMode && source.mode === "script";
  const location = { ...found, isScript, maySetMode, linked: locateLinked(options.linkedPackages) };
  if (options.packagesDir !== undefined) return { ...location, stores: namedStore(options.packagesDir) };
  const { stores, absent } = searchStores(found.files, options.root);
  return { ...location, stores, absent: [...found.absent, ...absent] };
}
