// fs.Stats of an in-memory file.
import type { FsNode } from "./fs-volume.ts";

const TYPE_BITS = { file: 0o100_000, folder: 0o040_000, link: 0o120_000 } as const;

/** The kind of an entry, shared by Stats and Dirent. */
export class EntryKind {
  readonly #kind: FsNode["kind"];
  constructor(kind: FsNode["kind"]) {
    this.#kind = kind;
  }
  isFile(): boolean {
    return this.#kind === "file";
  }
  isDirectory(): boolean {
    return this.#kind === "folder";
  }
  isSymbolicLink(): boolean {
    return this.#kind === "link";
  }
  isBlockDevice(): boolean {
    return false;
  }
  isCharacterDevice(): boolean {
    return false;
  }
  isFIFO(): boolean {
    return false;
  }
  isSocket(): boolean {
    return false;
  }
}

export class Stats extends EntryKind {
  readonly [name: string]: unknown;
  constructor(kind: FsNode["kind"], numbers: object) {
    super(kind);
    Object.assign(this, numbers);
  }
}

export function makeStats(node: FsNode, bigint = false): Stats {
  const size = node.kind === "link" ? node.target.length : node.bytes.length;
  const times = { atimeMs: node.atimeMs, mtimeMs: node.mtimeMs, ctimeMs: node.ctimeMs, birthtimeMs: node.birthtimeMs };
  const numbers = {
    dev: 1,
    mode: TYPE_BITS[node.kind] | node.mode,
    nlink: node.links,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: 4_096,
    ino: node.inode,
    size,
    blocks: Math.ceil(size / 512),
    ...times,
  };
  const dates = Object.fromEntries(
    Object.entries(times).map(([name, ms]) => [name.slice(0, -"Ms".length), new Date(ms)]),
  );
  if (!bigint) return new Stats(node.kind, { ...numbers, ...dates });
  const big = Object.fromEntries(Object.entries(numbers).map(([name, value]) => [name, BigInt(Math.trunc(value))]));
  const ns = Object.fromEntries(
    Object.entries(times).map(([name, ms]) => [name.replace("Ms", "Ns"), BigInt(Math.trunc(ms)) * 1_000_000n]),
  );
  return new Stats(node.kind, { ...big, ...ns, ...dates });
}
