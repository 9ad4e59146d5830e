// Names of the files in a cache: artifacts, and the empty files that mark who uses them.
import { createHash } from "node:crypto";

/** The name of a mark: the hash of an owner, and the stem of what it uses. */
export const MARK = /^([0-9a-f]{32})-([0-9a-f]{64})\.owner$/;

/** Returns the name of an owner in marks: a tenant id is not legible in it. */
export const hashOf = (owner: string): string => createHash("sha256").update(owner).digest("hex").slice(0, 32);

/** Artifacts are named after the hash of what they were made from, their stem: `STEM.bundle`, `STEM-ENGINE.v8`, `STEM.chunks`. */
export const stemOf = (name: string): string => name.slice(0, 64);

/** Tells whether a file of a cache's folder is the mark of a use whose artifacts are gone. */
export function isStaleMark(name: string, stems: ReadonlySet<string>): boolean {
  const [, , stem] = MARK.exec(name) ?? [];
  return stem !== undefined && !stems.has(stem);
}
