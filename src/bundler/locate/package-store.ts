// The npm packages that a tool may use: the folders they may come from, and the guard on each load. Nothing else is read.
import { basename, dirname, join, posix, relative, sep } from "node:path";
import { BuildIssueError } from "../compile/build-messages.ts";
import { type ContainedFile, isDirectory, isInside, readContainedFile } from "./contained-file.ts";
import type { FileManifest } from "./file-manifest.ts";
import { TOOL_FOLDER } from "./package-locations.ts";

const MAX_MANIFEST_BYTES = 1024 * 1024;
/** npm's own rule is stricter for new names; old packages have capitals. */
const PACKAGE_NAME = /^(?:@(?!\.)[\w.~-]+\/)?(?!\.)[\w.~-]+$/;
const MAX_LABEL_LENGTH = 214;

interface Manifest {
  readonly folder: string;
  readonly name: string | undefined;
  readonly version: string | undefined;
  /** What the package's `browser` field puts in the place of imports; `false` is nothing. */
  readonly browser: ReadonlyMap<string, unknown>;
  /** Packages that it does without where they are not installed. */
  readonly optional: ReadonlySet<string>;
  readonly hasBrowserBuild: boolean;
}

/** What is known of a package from its package.json. `folder` is its real path. */
export type PackageFacts = Pick<Manifest, "folder" | "name" | "hasBrowserBuild">;

/** `@scope/name/sub/path` → `@scope/name`; `undefined` when it names no package. */
export function packageNameOf(specifier: string): string | undefined {
  const segments = specifier.split("/");
  const name = segments.slice(0, specifier.startsWith("@") ? 2 : 1).join("/");
  const subpath = segments.slice(name.split("/").length);
  // "punycode/" is how a package is told from the Node built-in of its name.
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
    optional: new Set([...optionalPeers(fields.peerDependenciesMeta), ...keysOf(fields.optionalDependencies)]),
  };
}

/** Whether `exports` or `imports` name a condition for browsers at any depth. */
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

/** The keys of a `browser` field that an import may go by. */
function browserKeys(importer: string, specifier: string, folder: string): readonly string[] {
  if (!specifier.startsWith(".")) return [specifier, specifier.replace(/^node:/, "")];
  const path = relative(folder, join(dirname(importer), specifier))
    .split(sep)
    .join("/");
  const names = [path, `${path}.js`, `${path}.json`, posix.join(path, "index.js")];
  return names.flatMap((name) => [`./${name}`, name]);
}

export class PackageStore {
  readonly #stores: readonly string[];
  readonly #linked: readonly string[];
  /** Both: all folders that files of packages may lie in. */
  readonly #folders: readonly string[];
  readonly #ledger: FileManifest;
  readonly #manifests = new Map<string, Manifest | undefined>();
  readonly #loaded = new Set<string>();

  /**
   * @param stores real paths of `node_modules` folders, nearest first
   * @param linked real paths of the folders in which packages may lie that the stores link to
   */
  constructor(stores: readonly string[], linked: readonly string[], ledger: FileManifest) {
    this.#stores = stores;
    this.#linked = linked;
    this.#folders = [...stores, ...linked];
    this.#ledger = ledger;
  }

  /** Where the search for a package starts; `undefined` when there is no store at all. */
  get nearest(): string | undefined {
    return this.#stores[0];
  }

  get loaded(): ReadonlySet<string> {
    return this.#loaded;
  }

  /** Whether some store has a package of this name; those that lack it are recorded, for one may get it later. */
  has(name: string): boolean {
    for (const store of this.#stores) {
      const folder = join(store, name);
      if (isDirectory(folder)) return true;
      this.#ledger.recordAbsent(folder);
    }
    return false;
  }

  /**
   * Reads one file of a package.
   * @throws {BuildIssueError} when it lies outside the stores, is no regular file, or passes a cap
   */
  load(path: string): Buffer {
    const read = readContainedFile(this.#folders, path, this.#ledger.bytesLeft("package"));
    if (read.kind === "outside") {
      throw new BuildIssueError({
        message: "The import leads out of the package store",
        hint: "a package and all its files must really lie in the store; for a linked package of a workspace, a host names its folder in bundler.linkedPackages",
      });
    }
    if (read.kind === "too-large") this.#ledger.count("package", read.size);
    if (read.kind !== "file") {
      throw new BuildIssueError({
        message: `Cannot read a package file: ${read.kind === "unreadable" ? read.reason : "it does not exist"}`,
      });
    }
    // A build that links twice reads a file twice.
    if (!this.#loaded.has(path)) this.#ledger.count("package", read.file.contents.length);
    this.#ledger.record("package", read.file);
    this.#loaded.add(path);
    this.#manifestFor(read.file.realPath);
    return read.file.contents;
  }

  /**
   * Reads a data file of the package with this folder; undefined where there is no such file in it.
   * @throws {BuildIssueError} when it passes a limit
   */
  loadData(folder: string, path: string): Buffer | undefined {
    const read = readContainedFile([folder], path, this.#ledger.bytesLeft("package"));
    if (read.kind === "absent") this.#ledger.recordAbsent(path);
    if (read.kind === "too-large") this.#ledger.count("package", read.size);
    // A path that leads out of the package reads nothing, and does not say whether something is there.
    if (read.kind !== "file") return undefined;
    this.#ledger.count("package", read.file.contents.length);
    this.#ledger.record("package", read.file);
    return read.file.contents;
  }

  /** Where the guest finds a file of a package. */
  guestPath(path: string): string | undefined {
    const place = this.#placeOf(path);
    if (place === undefined) return undefined;
    const root = place.index === 0 ? place.name : `${place.name}/.${place.index}`;
    return `${TOOL_FOLDER}/${root}/${place.path}`;
  }

  /** `node_modules/zod/index.js` for a path inside a store: what messages and source maps say. */
  displayPath(path: string): string | undefined {
    const place = this.#placeOf(path);
    return place === undefined ? undefined : `${place.name}/${place.path}`;
  }

  /** `zod@4.6.7` for a file of that package. */
  labelOf(path: string): string | undefined {
    const manifest = this.#manifestFor(path);
    if (manifest?.name === undefined) return undefined;
    return manifest.version === undefined ? manifest.name : `${manifest.name}@${manifest.version}`;
  }

  /** What is known of the package to which a file belongs. */
  packageOf(path: string): PackageFacts | undefined {
    return this.#manifestFor(path);
  }

  /** What the importer's package says of this import in a browser (`"browser": { "./node.js": false, "util": "./util.js" }`). */
  browserMapping(importer: string, specifier: string): "empty" | "replaced" | undefined {
    const manifest = this.#manifestFor(importer);
    if (manifest === undefined || manifest.browser.size === 0) return undefined;
    const { browser } = manifest;
    const key = browserKeys(importer, specifier, manifest.folder).find((name) => browser.has(name));
    if (key === undefined) return undefined;
    return browser.get(key) === false ? "empty" : "replaced";
  }

  /** The importer's package says that it can do without, and no store has it. */
  isLeftOut(importer: string, name: string): boolean {
    return this.#manifestFor(importer)?.optional.has(name) === true && !this.has(name);
  }

  /** A file's path in its store, or in the folder of linked packages, and which of these it is. */
  #placeOf(path: string): { readonly name: string; readonly index: number; readonly path: string } | undefined {
    const folder = this.#storeOf(path);
    if (folder === undefined) return undefined;
    const isLinked = !this.#stores.includes(folder);
    const index = (isLinked ? this.#linked : this.#stores).indexOf(folder);
    const inside = relative(folder, path).split(sep).join("/");
    return { name: isLinked ? "linked_packages" : "node_modules", index, path: inside };
  }

  /** The innermost store: with a nested `node_modules`, the store it is nested in. */
  #storeOf(path: string): string | undefined {
    return this.#folders.find((folder) => isInside(folder, path));
  }

  #manifestFor(path: string): Manifest | undefined {
    const store = this.#storeOf(path);
    const folder = dirname(path);
    // A folder of linked packages may be a package itself; a store never is.
    const isStore = this.#stores.includes(folder);
    if (store === undefined || !isInside(store, folder) || isStore) return undefined;
    if (this.#manifests.has(folder)) return this.#manifests.get(folder);
    const manifest = this.#readManifest(folder) ?? this.#manifestFor(folder);
    this.#manifests.set(folder, manifest);
    return manifest;
  }

  #readManifest(folder: string): Manifest | undefined {
    // A node_modules folder that appears here would shadow packages further up.
    const nested = join(folder, "node_modules");
    if (basename(folder) !== "node_modules" && !isDirectory(nested)) this.#ledger.recordAbsent(nested);
    const read = readContainedFile(this.#folders, join(folder, "package.json"), MAX_MANIFEST_BYTES);
    if (read.kind !== "file") return undefined;
    this.#ledger.record("package", read.file);
    const manifest = parseManifest(read.file);
    // A package.json that only says {"type":"module"} marks a folder; the package is further up.
    return manifest.name === undefined ? undefined : manifest;
  }
}
