// Reads a file only if it really lies inside a folder: symlinks, FIFOs, devices and swaps between check and use are refused.
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
  /** The path, or what exists of it, leads out of the folders. */
  | { readonly kind: "outside" }
  | { readonly kind: "unreadable"; readonly reason: string }
  | { readonly kind: "too-large"; readonly size: number };

/** Both paths must be absolute and normal. A folder is inside itself. */
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

export function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** A file that an attacker renames or relinks between the check and the read is not read. */
function isStill(path: string, stats: Stats): boolean {
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

/** The real path of the deepest part of `path` that exists: says where a missing file would be. */
function realPathOfExisting(path: string): string {
  for (let part = path; ; part = dirname(part)) {
    const realPath = realPathOf(part);
    if (realPath !== undefined || part === dirname(part)) return realPath ?? part;
    // A dangling link: whether its target exists is none of the tool's business.
    if (lstatSync(part, { throwIfNoEntry: false })?.isSymbolicLink()) return sep;
  }
}

/** `folders` are real paths; the file's own real path must lie inside one of them. */
export function readContainedFile(folders: readonly string[], path: string, maxBytes: number): ContainedRead {
  const realPath = realPathOf(path);
  const place = realPath ?? realPathOfExisting(path);
  if (!folders.some((folder) => isInside(folder, place))) return { kind: "outside" };
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
    if (!isStill(realPath, stats)) return { kind: "unreadable", reason: "it changed while it was read" };
    if (stats.size > maxBytes) return { kind: "too-large", size: stats.size };
    return { kind: "file", file: { realPath, contents: readDescriptor(descriptor, stats.size), stats } };
  } finally {
    closeSync(descriptor);
  }
}
