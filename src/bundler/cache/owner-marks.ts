// Names of the files in a cache folder: artifacts, and the empty files that mark who uses them.
import { createHash } from "node:crypto";

/** File name of a mark: the hash of an owner, and the stem that it uses. */
export const MARK = /^([0-9a-f]{32})-([0-9a-f]{64})\.owner$/;

/** Returns the hash that stands for an owner in marks, so that no tenant id is readable there. */
export const ownerHashOf = (owner: string): string => createHash("sha256").update(owner).digest("hex").slice(0, 32);

/** Returns the stem of a file name: the hash of an artifact's source, as in `STEM.bundle`, `STEM-ENGINE.v8` and `STEM.chunks`. */
export const stemOf = (name: string): string => name.slice(0, 64);

/** Tells whether a file of a cache folder is a mark whose artifacts are gone. */
export function isStaleMark(name: string, stems: ReadonlySet<string>): boolean {
  const [, , stem] = MARK.exec(name) ?? [];
  return stem !== undefined && !stems.has(stem);
}
