// The in-memory file system of one call: a tree that starts empty except for /tmp, with limits on its bytes and entries. Errors are Node's.
import { errno } from "../process/os-constants.ts";

/** Smaller than the memory limit of a usual isolate, so that a tool receives ENOSPC before its isolate runs out of memory. */
const MAX_BYTES = 64 * 1024 * 1024;
const MAX_NODES = 100_000;
const MAX_LINKS = 40;

export type NodeKind = "file" | "folder" | "link";

export interface FsNode {
  readonly kind: NodeKind;
  readonly inode: number;
  mode: number;
  readonly birthtimeMs: number;
  mtimeMs: number;
  atimeMs: number;
  ctimeMs: number;
  links: number;
  /** Bytes of a file. They are never modified in place, so copies of the tree can share them. Their buffer may be longer. */
  bytes: Uint8Array;
  /** Entries of a folder. */
  readonly entries: Map<string, FsNode>;
  /** Target of a link. */
  readonly target: string;
  /** True for the files of packages and their folders, which are part of the tool's code. */
  readonly isReadOnly: boolean;
}

const WORDS: { readonly [code: string]: string } = {
  EACCES: "permission denied",
  EBADF: "bad file descriptor",
  EEXIST: "file already exists",
  EINVAL: "invalid argument",
  EISDIR: "illegal operation on a directory",
  ELOOP: "too many symbolic links encountered",
  ENOENT: "no such file or directory",
  ENOSPC: "no space left on device",
  ENOTDIR: "not a directory",
  ENOTEMPTY: "directory not empty",
  EPERM: "operation not permitted",
  EROFS: "read-only file system",
};

export function fsError(code: string, syscall: string, path?: string, dest?: string): Error {
  const paths = `${path === undefined ? "" : ` '${path}'`}${dest === undefined ? "" : ` -> '${dest}'`}`;
  const error = new Error(`${code}: ${WORDS[code] ?? "unknown error"}, ${syscall}${paths}`);
  const details: { [name: string]: unknown } = { errno: -(errno[code] ?? 0), code, syscall };
  if (path !== undefined) details.path = path;
  if (dest !== undefined) details.dest = dest;
  return Object.assign(error, details);
}

interface Found {
  readonly parent: FsNode;
  readonly name: string;
  readonly node: FsNode | undefined;
}

export class Volume {
  readonly root: FsNode;
  #bytes = 0;
  #nodes = 0;
  #lastInode = 0;

  constructor(from?: Volume) {
    if (from === undefined) {
      this.root = this.#make("folder", 0o755);
      this.root.entries.set("tmp", this.#make("folder", 0o777));
      return;
    }
    this.#bytes = from.#bytes;
    this.#nodes = from.#nodes;
    this.#lastInode = from.#lastInode;
    this.root = copyTree(from.root, new Map());
  }

  #make(kind: NodeKind, mode: number, target = "", isReadOnly = false): FsNode {
    this.#lastInode += 1;
    this.#nodes += 1;
    const now = Date.now();
    const times = { birthtimeMs: now, mtimeMs: now, atimeMs: now, ctimeMs: now };
    const bytes = new Uint8Array(0);
    return { kind, mode, inode: this.#lastInode, links: 1, ...times, bytes, entries: new Map(), target, isReadOnly };
  }

  /**
   * Adds read-only files and their folders. They do not count against the byte limit of the volume.
   * @param files contents by absolute path; undefined for a folder
   */
  addReadOnly(files: Iterable<readonly [path: string, bytes: Uint8Array | undefined]>): void {
    for (const [path, bytes] of files) {
      const names = path.split("/").filter((name) => name !== "");
      const last = bytes === undefined ? "" : (names.pop() ?? "");
      let folder = this.root;
      for (const name of names) {
        const next = folder.entries.get(name) ?? this.#make("folder", 0o555, "", true);
        folder.entries.set(name, next);
        folder = next;
      }
      if (bytes === undefined) continue;
      const file = this.#make("file", 0o444, "", true);
      file.bytes = bytes;
      folder.entries.set(last, file);
    }
  }

  /** Creates an entry at a path where none exists. */
  add(found: Found, kind: NodeKind, mode: number, syscall: string, path: string, target = ""): FsNode {
    if (this.#nodes >= MAX_NODES) throw fsError("ENOSPC", syscall, path);
    checkWritable(found.parent, syscall, path);
    const node = this.#make(kind, mode, target);
    found.parent.entries.set(found.name, node);
    touch(found.parent);
    return node;
  }

  unlink({ parent, name, node }: Found, syscall = "unlink"): void {
    checkWritable(parent, syscall, name);
    parent.entries.delete(name);
    touch(parent);
    if (node === undefined) return;
    node.links -= 1;
    if (node.links > 0) return;
    this.#nodes -= 1;
    this.#bytes -= node.bytes.length;
  }

  link({ parent, name }: Found, node: FsNode): void {
    checkWritable(parent, "link", name);
    parent.entries.set(name, node);
    node.links += 1;
    touch(parent);
  }

  setBytes(node: FsNode, bytes: Uint8Array, syscall: string): void {
    checkWritable(node, syscall);
    this.grow(bytes.length - node.bytes.length, syscall);
    node.bytes = bytes;
    touch(node);
  }

  /** Counts bytes before they are allocated. */
  grow(by: number, syscall: string): void {
    if (this.#bytes + by > MAX_BYTES) throw fsError("ENOSPC", syscall);
    this.#bytes += by;
  }

  canGrow(by: number, syscall: string): void {
    if (this.#bytes + by > MAX_BYTES) throw fsError("ENOSPC", syscall);
  }

  /** @param path absolute path */
  find(path: string, syscall: string, follow = true): Found {
    let parent = this.root;
    const rest = path.split("/").filter((segment) => segment !== "" && segment !== ".");
    const above: FsNode[] = [];
    let name = "";
    let node: FsNode | undefined = this.root;
    let links = 0;
    for (let segment = rest.shift(); segment !== undefined; segment = rest.shift()) {
      if (node === undefined) throw fsError("ENOENT", syscall, path);
      if (node.kind !== "folder") throw fsError("ENOTDIR", syscall, path);
      if (segment === "..") {
        node = above.pop() ?? this.root;
        parent = above.at(-1) ?? this.root;
        name = "";
        continue;
      }
      above.push(node);
      parent = node;
      name = segment;
      node = parent.entries.get(segment);
      if (node?.kind !== "link" || (rest.length === 0 && !follow)) continue;
      links += 1;
      if (links > MAX_LINKS) throw fsError("ELOOP", syscall, path);
      rest.unshift(...node.target.split("/").filter((part) => part !== "" && part !== "."));
      if (node.target.startsWith("/")) above.length = 0;
      node = node.target.startsWith("/") ? this.root : above.pop();
    }
    return { parent, name, node };
  }

  /** @throws ENOENT if nothing exists at the path */
  get(path: string, syscall: string, follow = true): FsNode {
    const { node } = this.find(path, syscall, follow);
    if (node === undefined) throw fsError("ENOENT", syscall, path);
    return node;
  }
}

/** @throws EROFS */
export function checkWritable(node: FsNode, syscall: string, path?: string): void {
  if (node.isReadOnly) throw fsError("EROFS", syscall, path);
}

export function touch(node: FsNode): void {
  node.mtimeMs = Date.now();
  node.ctimeMs = node.mtimeMs;
}

function copyTree(node: FsNode, copies: Map<FsNode, FsNode>): FsNode {
  const known = copies.get(node);
  if (known !== undefined) return known;
  const copy = { ...node, entries: new Map<string, FsNode>() };
  copies.set(node, copy);
  for (const [name, entry] of node.entries) copy.entries.set(name, copyTree(entry, copies));
  return copy;
}
