// Decides whether a cached bundle is still valid for its source: a key of everything known without the disk, and a check of the files.
import { createHash } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats, statSync } from "node:fs";
import esbuildPackage from "esbuild/package.json" with { type: "json" };
import type { BuiltBundle } from "../bundle-tool.ts";
import type { BuildDependency, BuildRequest } from "../compile/child/build-messages.ts";

/** Increment when a build produces a different result from the same input. */
const BUILD_VERSION = 11;

/** Returns the cache key in hex. It covers the contents of files in memory. {@link isFresh} checks the files on disk. */
export function cacheKeyOf(request: BuildRequest): string {
  const { timeoutMs: _timeoutMs, memoryMiB: _memoryMiB, ...sizeLimits } = request.limits;
  const { files, entry, stores, linked, guestModule, cell = null, isScript = false } = request;
  const allowPackages = request.allowPackages === null ? null : [...request.allowPackages].sort();
  const sorted =
    files.kind === "memory"
      ? Object.entries(files.files).sort(([a], [b]) => (a < b ? -1 : 1))
      : [files.folder, files.isWhole ?? false];
  const keyParts = [
    BUILD_VERSION,
    esbuildPackage.version,
    cell,
    entry,
    stores,
    linked,
    isScript,
    guestModule,
    allowPackages,
    sizeLimits,
    sorted,
  ];
  return createHash("sha256").update(JSON.stringify(keyParts)).digest("hex");
}

/**
 * Returns the cache key of a build that only its owner may use: its process had read other source of the owner before, so that it could have
 * returned a forged bundle.
 */
export function ownedKeyOf(key: string, owner: string): string {
  return createHash("sha256")
    .update(JSON.stringify([key, owner]))
    .digest("hex");
}

function looksUntouched(stats: Stats, dependency: BuildDependency): boolean {
  // ctime cannot be set back. npm does set mtime back: each file of a package is dated 1985.
  const { size, mtimeMs, ctimeMs, ino } = dependency;
  return stats.size === size && stats.mtimeMs === mtimeMs && stats.ctimeMs === ctimeMs && stats.ino === ino;
}

function hasSameContents({ path, size, sha256 }: BuildDependency): boolean {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile() || stats.size !== size) return false;
    return createHash("sha256").update(readFileSync(descriptor)).digest("hex") === sha256;
  } finally {
    closeSync(descriptor);
  }
}

/** The tool's own files are few and edited often, so they are always read. A package file is read only if its metadata has changed. */
function isSame(dependency: BuildDependency): boolean {
  const stats = statSync(dependency.path, { throwIfNoEntry: false });
  if (stats === undefined || stats.size !== dependency.size) return false;
  if (dependency.owner === "package" && looksUntouched(stats, dependency)) return true;
  return hasSameContents(dependency);
}

/**
 * Tells whether all files are unchanged. Synchronous on purpose: a few hundred `stat` calls take 0.5 ms this way and several ms otherwise.
 */
export function isFresh({ dependencies, absent }: BuiltBundle): boolean {
  try {
    if (absent.some((path) => statSync(path, { throwIfNoEntry: false }) !== undefined)) return false;
    return dependencies.every(isSame);
  } catch {
    return false;
  }
}
