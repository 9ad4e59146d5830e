// Reads a file only if its real path is inside a folder. Rejects symlinks that lead out, FIFOs, devices, and files that are swapped between
// check and read.
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readSync,
  realpathSync,
  type Stats,
  statSync,
} from "node:fs";
import { dirname, sep } from "node:path";

export interface ContainedFile {
  readonly realPath: string;
  readonly contents: Buffer;
  readonly stats: Stats;
}

export type ContainedRead =
  | { readonly kind: "file"; readonly file: ContainedFile }
  | { readonly kind: "absent" }
  /** The path, or the part of it that exists, leads out of the folders. */
  | { readonly kind: "outside" }
  | { readonly kind: "unreadable"; readonly reason: string }
  | { readonly kind: "too-large"; readonly size: number };

/** Both paths must be absolute and normalized. A folder is inside itself. */
export function isInside(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

export function realPathOf(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

/** Returns undefined if there is no such entry. A path that is longer than the system allows names none. */
function entryAt(path: string, stat: typeof lstatSync | typeof statSync): Stats | undefined {
  try {
    return stat(path, { throwIfNoEntry: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENAMETOOLONG") return undefined;
    throw error;
  }
}

export const isDirectory = (path: string): boolean => entryAt(path, statSync)?.isDirectory() ?? false;

/** Detects a file that an attacker renamed or relinked between the check and the read. */
function isUnchanged(path: string, stats: Stats): boolean {
  const now = lstatSync(path, { throwIfNoEntry: false });
  return now !== undefined && now.ino === stats.ino && now.dev === stats.dev && realPathOf(path) === path;
}

function readDescriptor(descriptor: number, size: number): Buffer {
  const contents = Buffer.alloc(size);
  let offset = 0;
  while (offset < size) {
    const count = readSync(descriptor, contents, offset, size - offset, offset);
    if (count === 0) break;
    offset += count;
  }
  return contents.subarray(0, offset);
}

/** Returns the real path of the deepest existing part of `path`, which is where a missing file would be. */
function realPathOfExisting(path: string): string {
  for (let part = path; ; part = dirname(part)) {
    const realPath = realPathOf(part);
    if (realPath !== undefined || part === dirname(part)) return realPath ?? part;
    // A dangling link: the tool must not find out whether its target exists.
    if (entryAt(part, lstatSync)?.isSymbolicLink()) return sep;
  }
}

/** @param folders real paths; the real path of the file must be inside one of them */
export function readContainedFile(folders: readonly string[], path: string, maxBytes: number): ContainedRead {
  const realPath = realPathOf(path);
  const target = realPath ?? realPathOfExisting(path);
  if (!folders.some((folder) => isInside(folder, target))) return { kind: "outside" };
  if (realPath === undefined) return { kind: "absent" };
  let descriptor: number;
  try {
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    descriptor = openSync(realPath, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return { kind: "unreadable", reason: "it cannot be opened" };
  }
  try {
    const stats = fstatSync(descriptor);
    if (stats.isDirectory()) return { kind: "absent" };
    if (!stats.isFile()) return { kind: "unreadable", reason: "it is not a regular file" };
    if (!isUnchanged(realPath, stats)) return { kind: "unreadable", reason: "it changed while it was read" };
    if (stats.size > maxBytes) return { kind: "too-large", size: stats.size };
    return { kind: "file", file: { realPath, contents: readDescriptor(descriptor, stats.size), stats } };
  } finally {
    closeSync(descriptor);
  }
}
