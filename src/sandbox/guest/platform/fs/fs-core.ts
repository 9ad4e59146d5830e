// The synchronous functions of node:fs, on the in-memory volume of the current call. node-fs.ts derives the other forms.

import { Buffer } from "../buffer/node-buffer.ts";
import { invalidArgument } from "../shared/node-error.ts";
import {
  current,
  FIRST_DESCRIPTOR,
  fileOf,
  files,
  MAX_OPEN,
  openNode,
  type PathLike,
  readFlag,
  toPath,
  writeAt,
} from "./fs-call-volume.ts";
import { EntryKind, makeStats, type Stats } from "./fs-stats.ts";
import { copyAll, copyFile, list, makeFolders, removeTree, resolveLinks } from "./fs-trees.ts";
import { checkWritable, type FsNode, fsError, touch, type Volume } from "./fs-volume.ts";

interface Options {
  readonly encoding?: string | null;
  readonly flag?: string;
  readonly mode?: number | string;
  readonly recursive?: boolean;
  readonly force?: boolean;
  readonly withFileTypes?: boolean;
  readonly throwIfNoEntry?: boolean;
  readonly bigint?: boolean;
  readonly errorOnExist?: boolean;
  readonly filter?: (from: string, to: string) => unknown;
}
type Given = Options | string | null | undefined;

const optionsOf = (given: Given): Options => (typeof given === "string" ? { encoding: given } : (given ?? {}));
const modeOf = (mode: number | string | undefined, otherwise: number): number =>
  mode === undefined ? otherwise : typeof mode === "string" ? Number.parseInt(mode, 8) : mode;
const encode = (bytes: Uint8Array, encoding: string | null | undefined): unknown =>
  encoding === undefined || encoding === null || encoding === "buffer"
    ? Buffer.from(bytes)
    : Buffer.from(bytes).toString(encoding as "utf8");

export function toBytes(data: unknown, encoding?: string | null): Uint8Array {
  if (typeof data === "string") return Uint8Array.from(Buffer.from(data, (encoding ?? "utf8") as "utf8"));
  if (ArrayBuffer.isView(data))
    return new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength).slice();
  throw invalidArgument("data", "of type string or an instance of Buffer, TypedArray, or DataView", data);
}

export class Dirent extends EntryKind {
  readonly name: unknown;
  readonly parentPath: string;
  constructor(name: unknown, parentPath: string, kind: FsNode["kind"]) {
    super(kind);
    this.name = name;
    this.parentPath = parentPath;
  }
  get path(): string {
    return this.parentPath;
  }
}

const setTimes = (node: FsNode, atime: unknown, mtime: unknown): void => {
  const toMs = (time: unknown): number => (time instanceof Date ? time.getTime() : Number(time) * 1_000);
  node.atimeMs = toMs(atime);
  node.mtimeMs = toMs(mtime);
};

export const core = {
  access(path: PathLike): void {
    current().get(toPath(path), "access");
  },
  appendFile(path: PathLike | number, data: unknown, given?: Given): void {
    core.writeFile(path, data, { flag: "a", ...optionsOf(given) });
  },
  chmod(path: PathLike, mode: number | string): void {
    current().get(toPath(path), "chmod").mode = modeOf(mode, 0);
  },
  chown(path: PathLike): void {
    current().get(toPath(path), "chown");
  },
  close(descriptor: number): void {
    fileOf(descriptor, "close");
    files.delete(descriptor);
  },
  copyFile,
  cp(from: PathLike, to: PathLike, options: Options = {}): void {
    const steps = copyAll(toPath(from, "src"), toPath(to, "dest"), options);
    for (let step = steps.next(); step.done !== true; ) step = steps.next(step.value);
  },
  exists(path: PathLike): boolean {
    try {
      return current().find(toPath(path), "access").node !== undefined;
    } catch {
      return false;
    }
  },
  fchmod(descriptor: number, mode: number): void {
    fileOf(descriptor, "fchmod").node.mode = mode;
  },
  fdatasync(descriptor: number): void {
    fileOf(descriptor, "fdatasync");
  },
  fstat(descriptor: number, options?: Options): Stats {
    return makeStats(fileOf(descriptor, "fstat").node, options?.bigint);
  },
  fsync(descriptor: number): void {
    fileOf(descriptor, "fsync");
  },
  ftruncate(descriptor: number, length = 0): void {
    const { node } = fileOf(descriptor, "ftruncate");
    const next = new Uint8Array(length);
    next.set(node.bytes.subarray(0, length));
    current().setBytes(node, next, "ftruncate");
  },
  futimes(descriptor: number, atime: unknown, mtime: unknown): void {
    setTimes(fileOf(descriptor, "futimes").node, atime, mtime);
  },
  link(from: PathLike, to: PathLike): void {
    const [source, target] = [toPath(from, "existingPath"), toPath(to, "newPath")];
    const node = current().get(source, "link");
    if (node.kind === "folder") throw fsError("EPERM", "link", source, target);
    const found = current().find(target, "link");
    if (found.node !== undefined) throw fsError("EEXIST", "link", source, target);
    current().link(found, node);
  },
  lstat(path: PathLike, options: Options = {}): Stats | undefined {
    return statOf(toPath(path), options, "lstat");
  },
  mkdir(path: PathLike, given?: Options | number | string): string | undefined {
    const options = typeof given === "object" && given !== null ? given : { mode: given };
    const place = toPath(path);
    const mode = modeOf(options.mode ?? undefined, 0o777) & ~0o22;
    if ((options as Options).recursive) return makeFolders(place, mode);
    const found = current().find(place, "mkdir");
    if (found.node !== undefined) throw fsError("EEXIST", "mkdir", place);
    current().add(found, "folder", mode, "mkdir", place);
    return undefined;
  },
  mkdtemp(prefix: string): string {
    for (;;) {
      const path = toPath(prefix + Math.random().toString(36).slice(2, 8).padEnd(6, "0"), "prefix");
      if (core.exists(path)) continue;
      core.mkdir(path, { mode: 0o700 });
      return path;
    }
  },
  open(path: PathLike, flag: string | number = "r", mode?: number | string): number {
    const place = toPath(path);
    const meaning = readFlag(flag);
    if (files.size >= MAX_OPEN) throw fsError("EMFILE", "open", place);
    const node = openNode(place, meaning, modeOf(mode, 0o666), "open");
    let descriptor = FIRST_DESCRIPTOR;
    while (files.has(descriptor)) descriptor += 1;
    const { read: canRead, write: canWrite, append: appends } = meaning;
    files.set(descriptor, { node, path: place, canRead, canWrite, appends, position: 0 });
    return descriptor;
  },
  read(descriptor: number, buffer: Uint8Array, ...rest: unknown[]): number {
    const file = fileOf(descriptor, "read");
    if (!file.canRead) throw fsError("EBADF", "read");
    if (file.node.kind === "folder") throw fsError("EISDIR", "read");
    const given =
      typeof rest[0] === "object" && rest[0] !== null ? (rest[0] as { [name: string]: unknown }) : undefined;
    const [a, b, c] = given === undefined ? rest : [given.offset, given.length, given.position];
    const offset = Number(a ?? 0);
    const length = Number(b ?? buffer.byteLength - offset);
    const from = typeof c === "number" && c >= 0 ? c : file.position;
    const bytes = file.node.bytes.subarray(from, from + length);
    new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength).set(bytes, offset);
    if (from === file.position && typeof c !== "number") file.position += bytes.length;
    return bytes.length;
  },
  readdir(path: PathLike, given?: Given): unknown[] {
    const place = toPath(path);
    const { encoding, withFileTypes, recursive = false } = optionsOf(given);
    const node = current().get(place, "scandir");
    if (node.kind !== "folder") throw fsError("ENOTDIR", "scandir", place);
    const entries = list(node, "", place.replace(/(?<=.)\/+$/, ""), recursive);
    entries.sort(([a], [b]) => (a < b ? -1 : 1));
    const nameOf = (name: string): unknown => (encoding === "buffer" ? Buffer.from(name) : name);
    if (!withFileTypes) return entries.map(([name]) => nameOf(name));
    return entries.map(
      ([name, parent, { kind }]) => new Dirent(nameOf(name.slice(name.lastIndexOf("/") + 1)), parent, kind),
    );
  },
  readFile(path: PathLike | number, given?: Given): unknown {
    const { encoding, flag = "r" } = optionsOf(given);
    if (typeof path === "number") {
      const file = fileOf(path, "read");
      const rest = file.node.bytes.subarray(file.position);
      file.position = file.node.bytes.length;
      return encode(rest, encoding);
    }
    const place = toPath(path);
    const node = openNode(place, readFlag(flag), 0o666, "open");
    if (node.kind === "folder") throw fsError("EISDIR", "read");
    node.atimeMs = Date.now();
    return encode(node.bytes, encoding);
  },
  readlink(path: PathLike): string {
    const place = toPath(path);
    const node = current().get(place, "readlink", false);
    if (node.kind !== "link") throw fsError("EINVAL", "readlink", place);
    return node.target;
  },
  realpath(path: PathLike): string {
    const place = toPath(path);
    current().get(place, "lstat");
    return resolveLinks(place);
  },
  rename(from: PathLike, to: PathLike): void {
    const [source, target] = [toPath(from, "oldPath"), toPath(to, "newPath")];
    const found = current().find(source, "rename", false);
    if (found.node === undefined) throw fsError("ENOENT", "rename", source, target);
    const place = current().find(target, "rename", false);
    if (place.node === found.node) return;
    if (found.name === "" || `${target}/`.startsWith(`${source}/`)) throw fsError("EINVAL", "rename", source, target);
    if (place.node?.kind === "folder") {
      if (found.node.kind !== "folder") throw fsError("EISDIR", "rename", source, target);
      if (place.node.entries.size > 0) throw fsError("ENOTEMPTY", "rename", source, target);
    } else if (place.node !== undefined && found.node.kind === "folder")
      throw fsError("ENOTDIR", "rename", source, target);
    for (const parent of [found.parent, place.parent]) checkWritable(parent, "rename", source);
    if (place.node !== undefined) current().unlink(place);
    found.parent.entries.delete(found.name);
    place.parent.entries.set(place.name, found.node);
    touch(found.parent);
    touch(place.parent);
  },
  rm(path: PathLike, options: Options = {}): void {
    const place = toPath(path);
    let found: ReturnType<Volume["find"]>;
    try {
      found = current().find(place, "lstat", false);
    } catch (error) {
      if (options.force) return;
      throw error;
    }
    if (found.node === undefined) {
      if (options.force) return;
      throw fsError("ENOENT", "lstat", place);
    }
    if (found.node.kind === "folder" && !options.recursive) {
      throw Object.assign(fsError("EISDIR", "rm", place), { code: "ERR_FS_EISDIR" });
    }
    removeTree(place, "rm");
  },
  rmdir(path: PathLike): void {
    const place = toPath(path);
    const found = current().find(place, "rmdir", false);
    if (found.node === undefined) throw fsError("ENOENT", "rmdir", place);
    if (found.node.kind !== "folder") throw fsError("ENOTDIR", "rmdir", place);
    if (found.node.entries.size > 0 || found.name === "") throw fsError("ENOTEMPTY", "rmdir", place);
    current().unlink(found);
  },
  stat(path: PathLike, options: Options = {}): Stats | undefined {
    return statOf(toPath(path), options, "stat");
  },
  symlink(target: PathLike, path: PathLike): void {
    const place = toPath(path);
    const found = current().find(place, "symlink", false);
    const given = typeof target === "string" ? target : toPath(target, "target");
    if (found.node !== undefined) throw fsError("EEXIST", "symlink", given, place);
    current().add(found, "link", 0o777, "symlink", place, given);
  },
  truncate(path: PathLike, length = 0): void {
    const place = toPath(path);
    const descriptor = core.open(place, "r+");
    core.ftruncate(descriptor, length);
    core.close(descriptor);
  },
  unlink(path: PathLike): void {
    const place = toPath(path);
    const found = current().find(place, "unlink", false);
    if (found.node === undefined) throw fsError("ENOENT", "unlink", place);
    if (found.node.kind === "folder") throw fsError("EISDIR", "unlink", place);
    current().unlink(found);
  },
  utimes(path: PathLike, atime: unknown, mtime: unknown): void {
    setTimes(current().get(toPath(path), "utime"), atime, mtime);
  },
  write(descriptor: number, data: unknown, ...rest: unknown[]): number {
    const file = fileOf(descriptor, "write");
    if (!file.canWrite) throw fsError("EBADF", "write");
    let bytes: Uint8Array;
    let position: unknown;
    if (typeof data === "string") {
      bytes = toBytes(data, typeof rest[1] === "string" ? rest[1] : undefined);
      [position] = rest;
    } else {
      const given =
        typeof rest[0] === "object" && rest[0] !== null ? (rest[0] as { [name: string]: unknown }) : undefined;
      const [offset, length, at] = given === undefined ? rest : [given.offset, given.length, given.position];
      const from = Number(offset ?? 0);
      const all = toBytes(data);
      bytes = all.subarray(from, length === undefined || length === null ? undefined : from + Number(length));
      position = at;
    }
    const isPlaced = typeof position === "number" && !file.appends;
    const at = file.appends ? file.node.bytes.length : isPlaced ? (position as number) : file.position;
    writeAt(file.node, bytes, at, "write");
    if (!isPlaced) file.position = at + bytes.length;
    return bytes.length;
  },
  writeFile(path: PathLike | number, data: unknown, given?: Given): void {
    const { encoding, flag = "w", mode } = optionsOf(given);
    const bytes = toBytes(data, encoding);
    if (typeof path === "number") {
      core.write(path, bytes);
      return;
    }
    const meaning = readFlag(flag);
    const node = openNode(toPath(path), meaning, modeOf(mode, 0o666), "open");
    if (meaning.append) writeAt(node, bytes, node.bytes.length, "write");
    else if (meaning.truncate) current().setBytes(node, bytes, "write");
    else writeAt(node, bytes, 0, "write");
  },
};

function statOf(path: string, options: Options, syscall: "stat" | "lstat"): Stats | undefined {
  try {
    return makeStats(current().get(path, syscall, syscall === "stat"), options.bigint);
  } catch (error) {
    if (options.throwIfNoEntry === false && (error as { code?: unknown }).code === "ENOENT") return undefined;
    throw error;
  }
}
