// Finds the folder that a host would have to add to bundler.linkedPackages so that a package file outside of the store may be read.
import { existsSync } from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";
import { isInside } from "./contained-file.ts";

export interface LinkedFolder {
  /** A relative path if `base` is set, otherwise the folder's name. */
  readonly folder: string;
  /** Name of the folder that the path is relative to. */
  readonly base?: string;
}

/** The virtual store of pnpm, or the outermost `node_modules` of the path. */
function findPackageFolder(path: string): string | undefined {
  const segments = dirname(path).split(sep);
  const index = segments.indexOf("node_modules");
  if (index === -1) return undefined;
  return segments.slice(0, index + (segments[index + 1] === ".pnpm" ? 2 : 1)).join(sep);
}

/** The folder of the package that the file belongs to, unless it contains an allowed folder: it would allow a whole workspace. */
function findPackage(path: string, allowed: readonly string[]): string | undefined {
  for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) {
    if (allowed.some((each) => isInside(folder, each))) return undefined;
    if (existsSync(join(folder, "package.json"))) return folder;
  }
  return undefined;
}

/** Returns whether two paths have a folder in common other than the root of the file system. */
const isSameTree = (one: string, other: string): boolean => one.split(sep)[1] === other.split(sep)[1];

/**
 * Returns the folder for a file, shown relative to the folder that holds the outermost store: tenants read the message, and must not learn
 * absolute paths of the host. Returns undefined if the file is in no package.
 * @param stores real paths, nearest first
 * @param linked real paths
 * @param path real path of the file
 */
export function findLinkedFolder(
  stores: readonly string[],
  linked: readonly string[],
  path: string,
): LinkedFolder | undefined {
  const folder = findPackageFolder(path) ?? findPackage(path, [...stores, ...linked]);
  if (folder === undefined) return undefined;
  const outermost = stores.at(-1);
  const base = outermost === undefined ? linked[0] : dirname(outermost);
  if (base === undefined || basename(base) === "" || !isSameTree(base, folder)) return { folder: basename(folder) };
  return { folder: relative(base, folder).split(sep).join("/"), base: basename(base) };
}
