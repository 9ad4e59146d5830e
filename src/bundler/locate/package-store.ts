// The npm packages that a tool may use: looks them up in the allowed folders, and checks each file before it is read. Imports are resolved in
// policy/import-resolver.ts, by esbuild.
import { basename, dirname, join, posix, relative, sep } from "node:path";
import { BuildIssueError } from "../compile/child/build-messages.ts";
import { TOOL_FOLDER } from "../compile/located-files/module-location.ts";
import { type ContainedFile, isDirectory, isInside, readContainedFile, realPathOf } from "./contained-file.ts";
import type { FileManifest } from "./file-manifest.ts";
import { findLinkedFolder } from "./linked-folder.ts";

const MAX_MANIFEST_BYTES = 1024 * 1024;
/** Pattern of package names. npm requires lower case for new names, but old packages have capitals. */
const PACKAGE_NAME = /^(?:@(?!\.)[\w.~-]+\/)?(?!\.)[\w.~-]+$/;
const MAX_LABEL_LENGTH = 214;

interface Manifest {
  readonly folder: string;
  readonly name: string | undefined;
  readonly version: string | undefined;
  /** Replacements of imports from the package's `browser` field. `false` means an empty module. */
  readonly browser: ReadonlyMap<string, unknown>;
  /** Optional dependencies and peers, which may be missing. */
  readonly optional: ReadonlySet<string>;
  readonly hasBrowserBuild: boolean;
  /** Whether `main` and `module` name different builds. With `exports`, Node reads neither. */
  readonly hasModuleBuild: boolean;
}

/** Facts from the package.json of a package. `folder` is its real path. */
export type PackageMetadata = Pick<Manifest, "folder" | "name" | "hasBrowserBuild" | "hasModuleBuild">;

/** `@scope/name/sub/path` → `@scope/name`. Returns `undefined` if the specifier names no package. */
export function packageNameOf(specifier: string): string | undefined {
  const segments = specifier.split("/");
  const name = segments.slice(0, specifier.startsWith("@") ? 2 : 1).join("/");
  const subpath = segments.slice(name.split("/").length);
  // A trailing slash ("punycode/") selects the npm package instead of the Node built-in of the same name.
  if (subpath.length === 1 && subpath[0] === "") subpath.pop();
  if (subpath.some((segment) => segment === "" || segment === "." || segment === "..")) return undefined;
  return PACKAGE_NAME.test(name) && name.length <= MAX_LABEL_LENGTH && name !== "node_modules" ? name : undefined;
}

function parseManifest(file: ContainedFile): Manifest {
  let json: unknown;
  try {
    json = JSON.parse(file.contents.toString("utf8"));
  } catch {
    json = undefined;
  }
  const fields: { readonly [key: string]: unknown } = typeof json === "object" && json !== null ? { ...json } : {};
  const text = (key: string): string | undefined => {
    const value = fields[key];
    return typeof value === "string" && value !== "" && value.length <= MAX_LABEL_LENGTH ? value : undefined;
  };
  const browser = typeof fields.browser === "object" && fields.browser !== null ? fields.browser : {};
  return {
    folder: dirname(file.realPath),
    name: text("name"),
    version: text("version"),
    browser: new Map(Object.entries(browser)),
    hasBrowserBuild: hasBrowserBuild(fields),
    hasModuleBuild: typeof fields.module === "string" && fields.module !== fields.main && fields.exports === undefined,
    optional: new Set([...optionalPeers(fields.peerDependenciesMeta), ...keysOf(fields.optionalDependencies)]),
  };
}

/** Tells whether `exports` or `imports` have a condition for browsers at any depth. */
function hasBrowserCondition(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([key, inner]) => {
    return key === "browser" || key === "worker" || hasBrowserCondition(inner);
  });
}

function hasBrowserBuild({ browser, exports, imports }: { readonly [key: string]: unknown }): boolean {
  return typeof browser === "string" || keysOf(browser).length > 0 || [exports, imports].some(hasBrowserCondition);
}

const keysOf = (value: unknown): readonly string[] =>
  typeof value === "object" && value !== null ? Object.keys(value) : [];

function optionalPeers(meta: unknown): readonly string[] {
  return keysOf(meta).filter((name) => {
    const peer = (meta as { readonly [name: string]: unknown })[name];
    return typeof peer === "object" && peer !== null && "optional" in peer && peer.optional === true;
  });
}

/** Returns the keys of a `browser` field that may match an import. */
function browserKeys(importer: string, specifier: string, folder: string): readonly string[] {
  if (!specifier.startsWith(".")) return [specifier, specifier.replace(/^node:/, "")];
  const path = relative(folder, join(dirname(importer), specifier))
    .split(sep)
    .join("/");
  const names = [path, `${path}.js`, `${path}.json`, posix.join(path, "index.js")];
  return names.flatMap((name) => [`./${name}`, name]);
}

export interface PackageFile {
  readonly contents: Buffer;
  readonly sha256: string;
}

export class PackageStore {
  readonly #stores: readonly string[];
  readonly #linked: readonly string[];
  /** All folders in which files of packages may lie: stores and linked folders. */
  readonly #folders: readonly string[];
  readonly #fileManifest: FileManifest;
  readonly #manifests = new Map<string, Manifest | undefined>();
  readonly #loaded = new Set<string>();

  /**
   * @param stores real paths of `node_modules` folders, nearest first
   * @param linked real paths of folders in which packages may lie that the stores link to
   */
  constructor(stores: readonly string[], linked: readonly string[], fileManifest: FileManifest) {
    this.#stores = stores;
    this.#linked = linked;
    this.#folders = [...stores, ...linked];
    this.#fileManifest = fileManifest;
  }

  /** Folder where the search for a package starts, or `undefined` without a store. */
  get nearest(): string | undefined {
    return this.#stores[0];
  }

  get loaded(): ReadonlySet<string> {
    return this.#loaded;
  }

  /** Tells whether a store has a package of this name. Stores without it are recorded, because the package may appear there later. */
  has(name: string): boolean {
    for (const store of this.#stores) {
      const folder = join(store, name);
      if (isDirectory(folder)) return true;
      this.#fileManifest.recordAbsent(folder);
    }
    return false;
  }

  /**
   * Reads one file of a package.
   * @throws {BuildIssueError} when it lies outside the stores, is not a regular file, or exceeds a limit
   */
  load(path: string): PackageFile {
    const read = readContainedFile(this.#folders, path, this.#fileManifest.bytesLeft("package"));
    if (read.kind === "outside") {
      throw new BuildIssueError({
        message: "The import leads out of the package store",
        hint: `the real path of a package file must be inside the store or a folder of linked packages; to allow it, ${this.#howToAllow(path)}`,
      });
    }
    if (read.kind === "too-large") this.#fileManifest.count("package", read.size);
    if (read.kind !== "file") {
      throw new BuildIssueError({
        message: `Cannot read a package file: ${read.kind === "unreadable" ? read.reason : "it does not exist"}`,
      });
    }
    // A build that links twice reads a file twice, and counts it once.
    if (!this.#loaded.has(path)) this.#fileManifest.count("package", read.file.contents.length);
    const sha256 = this.#fileManifest.record("package", read.file);
    this.#loaded.add(path);
    this.#manifestFor(read.file.realPath);
    return { contents: read.file.contents, sha256 };
  }

  /**
   * Reads a data file of the package in this folder. Returns undefined if the package has no such file.
   * @throws {BuildIssueError} when it exceeds a limit
   */
  loadData(folder: string, path: string): Buffer | undefined {
    const read = readContainedFile([folder], path, this.#fileManifest.bytesLeft("package"));
    if (read.kind === "absent") this.#fileManifest.recordAbsent(path);
    if (read.kind === "too-large") this.#fileManifest.count("package", read.size);
    // A path that leads out of the package reads nothing and does not disclose whether a file exists.
    if (read.kind !== "file") return undefined;
    this.#fileManifest.count("package", read.file.contents.length);
    this.#fileManifest.record("package", read.file);
    return read.file.contents;
  }

  /** Returns the guest path of a package file. */
  guestPath(path: string): string | undefined {
    const location = this.#locationOf(path);
    if (location === undefined) return undefined;
    const root = location.index === 0 ? location.name : `${location.name}/.${location.index}`;
    return `${TOOL_FOLDER}/${root}/${location.path}`;
  }

  /** Returns the path that messages and source maps show for a file in a store, such as `node_modules/zod/index.js`. */
  displayPath(path: string): string | undefined {
    const location = this.#locationOf(path);
    return location === undefined ? undefined : `${location.name}/${location.path}`;
  }

  /** Returns the package of a file with its version, such as `zod@4.6.7`. */
  labelOf(path: string): string | undefined {
    const manifest = this.#manifestFor(path);
    if (manifest?.name === undefined) return undefined;
    return manifest.version === undefined ? manifest.name : `${manifest.name}@${manifest.version}`;
  }

  /** Returns the metadata of the package that a file belongs to. */
  packageOf(path: string): PackageMetadata | undefined {
    return this.#manifestFor(path);
  }

  /** Returns how the importer's package maps this import for browsers (`"browser": { "./node.js": false, "util": "./util.js" }`). */
  browserMapping(importer: string, specifier: string): "empty" | "own file" | "package" | undefined {
    const manifest = this.#manifestFor(importer);
    if (manifest === undefined || manifest.browser.size === 0) return undefined;
    const { browser } = manifest;
    const key = browserKeys(importer, specifier, manifest.folder).find((name) => browser.has(name));
    if (key === undefined) return undefined;
    const target = browser.get(key);
    if (target === false) return "empty";
    return typeof target === "string" && !target.startsWith(".") ? "package" : "own file";
  }

  /** Tells whether an import is an optional dependency of the importer's package and missing in all stores. */
  isMissingOptional(importer: string, name: string): boolean {
    return this.#manifestFor(importer)?.optional.has(name) === true && !this.has(name);
  }

  /** Says which folder the host would have to add to its options, as far as that is known. */
  #howToAllow(path: string): string {
    const option = "bundler.linkedPackages (on the command line: --linked-package FOLDER)";
    const realPath = realPathOf(path);
    const found = realPath === undefined ? undefined : findLinkedFolder(this.#stores, this.#linked, realPath);
    if (found === undefined) return `add the folder of the packages to ${option}`;
    const base = found.base === undefined ? "" : `, relative to the folder ${JSON.stringify(found.base)},`;
    return `add the folder ${JSON.stringify(found.folder)}${base} to ${option}`;
  }

  /** Returns a file's path inside its store or its folder of linked packages, and the index of that folder. */
  #locationOf(path: string): { readonly name: string; readonly index: number; readonly path: string } | undefined {
    const folder = this.#storeOf(path);
    if (folder === undefined) return undefined;
    const isLinked = !this.#stores.includes(folder);
    const index = (isLinked ? this.#linked : this.#stores).indexOf(folder);
    const inside = relative(folder, path).split(sep).join("/");
    return { name: isLinked ? "linked_packages" : "node_modules", index, path: inside };
  }

  /** Returns the innermost store that contains a path: with nested `node_modules`, the outer store comes later in the list. */
  #storeOf(path: string): string | undefined {
    return this.#folders.find((folder) => isInside(folder, path));
  }

  #manifestFor(path: string): Manifest | undefined {
    const store = this.#storeOf(path);
    const folder = dirname(path);
    // A folder of linked packages may itself be a package. A store never is.
    const isStore = this.#stores.includes(folder);
    if (store === undefined || !isInside(store, folder) || isStore) return undefined;
    if (this.#manifests.has(folder)) return this.#manifests.get(folder);
    const manifest = this.#readManifest(folder) ?? this.#manifestFor(folder);
    this.#manifests.set(folder, manifest);
    return manifest;
  }

  #readManifest(folder: string): Manifest | undefined {
    // A node_modules folder that appears here later would shadow packages further up.
    const nested = join(folder, "node_modules");
    if (basename(folder) !== "node_modules" && !isDirectory(nested)) this.#fileManifest.recordAbsent(nested);
    const read = readContainedFile(this.#folders, join(folder, "package.json"), MAX_MANIFEST_BYTES);
    if (read.kind !== "file") return undefined;
    this.#fileManifest.record("package", read.file);
    const manifest = parseManifest(read.file);
    // A package.json without a name, such as {"type":"module"}, only marks a folder. The package is further up.
    return manifest.name === undefined ? undefined : manifest;
  }
}
