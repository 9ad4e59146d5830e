// The synchronous functions of node:fs, on the in-memory volume of the current call. node-fs.ts derives the other forms.
import { callSerial } from "../call-state.ts";
import { EntryKind, makeStats, type Stats } from "./fs-stats.ts";
import { checkWritable, type FsNode, fsError, touch, Volume } from "./fs-volume.ts";
import { Buffer } from "./node-buffer.ts";
import { invalidArgument } from "./node-error.ts";

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
}
type PathLike = string | Uint8Array | { readonly href: string; readonly pathname: string };
type Given = Options | string | null | undefined;

/** Data files of the bundle's packages. All calls share their bytes. */
const packageFiles: (readonly [path: string, bytes: Uint8Array | undefined])[] = [];

function newVolume(): Volume {
  const made = new Volume();
  made.addReadOnly(packageFiles);
  return made;
}

let volume = new Volume();
let volumeOf = callSerial();
/** Volume with the files that the tool's top level wrote. Each call starts with a copy, which is dropped when the call ends. */
let loaded: Volume | undefined;

function current(): Volume {
  const serial = callSerial();
  if (serial !== volumeOf) {
    loaded ??= volumeOf === 0 ? volume : newVolume();
    volume = new Volume(loaded);
    volumeOf = serial;
    files.clear();
  }
  return volume;
}

/**
 * Adds the data files of packages. A bundle calls this before its code runs.
 * @param given contents by path: text, an array with base64, or null for a folder
 */
export function addPackageFiles(given: { readonly [path: string]: string | readonly [base64: string] | null }): void {
  const added = Object.entries(given).map(([path, value]) => {
    if (value === null) return [path, undefined] as const;
    const bytes = typeof value === "string" ? Buffer.from(value) : Buffer.from(value[0], "base64");
    return [path, new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength)] as const;
  });
  packageFiles.push(...added);
  volume.addReadOnly(added);
  loaded?.addReadOnly(added);
}

export function toPath(given: unknown, name = "path"): string {
  let path: string;
  if (typeof given === "string") path = given;
  else if (given instanceof Uint8Array) path = Buffer.from(given).toString();
  else if (typeof given === "object" && given !== null && "href" in given) {
    const url = given as unknown as { readonly protocol?: string; readonly pathname: string };
    if (url.protocol !== "file:") throw invalidArgument(name, "of scheme file", given);
    path = decodeURIComponent(url.pathname);
  } else throw invalidArgument(name, "of type string or an instance of Buffer or URL", given);
  if (path.includes("\0")) throw invalidArgument(name, "a string without null bytes", path);
  return path.startsWith("/") ? path : `/${path}`;
}

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

interface OpenFile {
  readonly node: FsNode;
  readonly path: string;
  readonly canRead: boolean;
  readonly canWrite: boolean;
  readonly appends: boolean;
  position: number;
}
const files = new Map<number, OpenFile>();
const FIRST_DESCRIPTOR = 3;
const MAX_OPEN = 1_024;

interface FlagMeaning {
  readonly read: boolean;
  readonly write: boolean;
  readonly create: boolean;
  readonly truncate: boolean;
  readonly append: boolean;
  readonly exclusive: boolean;
}

/** Linux's values of fs.constants. */
const O = { ACCESS: 3, CREAT: 64, EXCL: 128, TRUNC: 512, APPEND: 1024 } as const;

function readFlag(flag: string | number): FlagMeaning {
  if (typeof flag === "number") {
    return {
      read: (flag & O.ACCESS) !== 1,
      write: (flag & O.ACCESS) !== 0,
      create: (flag & O.CREAT) !== 0,
      truncate: (flag & O.TRUNC) !== 0,
      append: (flag & O.APPEND) !== 0,
      exclusive: (flag & O.EXCL) !== 0,
    };
  }
  const letters = flag.replace("s", "");
  const kind = letters[0];
  if (!/^(?:r\+?|[wa]x?\+?|[wa]\+x?)$/.test(letters)) throw invalidArgument("flags", "a valid flag", flag);
  return {
    read: kind === "r" || letters.includes("+"),
    write: kind !== "r" || letters.includes("+"),
    create: kind !== "r",
    truncate: kind === "w",
    append: kind === "a",
    exclusive: letters.includes("x"),
  };
}

function openNode(path: string, meaning: FlagMeaning, mode: number, syscall: string): FsNode {
  const found = current().find(path, syscall);
  let { node } = found;
  if (node !== undefined && meaning.exclusive && meaning.create) throw fsError("EEXIST", syscall, path);
  if (node === undefined) {
    if (!meaning.create || found.name === "") throw fsError("ENOENT", syscall, path);
    node = current().add(found, "file", mode & ~0o22, syscall, path);
  }
  if (node.kind === "folder" && meaning.write) throw fsError("EISDIR", syscall, path);
  if (meaning.write) checkWritable(node, syscall, path);
  if (meaning.truncate && node.bytes.length > 0) current().setBytes(node, new Uint8Array(0), syscall);
  return node;
}

function fileOf(descriptor: unknown, syscall: string): OpenFile {
  if (typeof descriptor !== "number") throw invalidArgument("fd", "of type number", descriptor);
  current();
  const file = files.get(descriptor);
  if (file === undefined) throw fsError("EBADF", syscall);
  return file;
}

/** Grows to the exact size. Doubling the size would be faster, but copies of the volume share the bytes, and files here are small. */
function writeAt(node: FsNode, bytes: Uint8Array, position: number, syscall: string): void {
  const size = Math.max(node.bytes.length, position + bytes.length);
  current().canGrow(size - node.bytes.length, syscall);
  const next = new Uint8Array(size);
  next.set(node.bytes);
  next.set(bytes, position);
  current().setBytes(node, next, syscall);
}

function list(
  node: FsNode,
  prefix: string,
  path: string,
  recursive: boolean,
): (readonly [name: string, parent: string, node: FsNode])[] {
  return [...node.entries].flatMap(([name, entry]) => {
    const own = [[prefix + name, path, entry] as const];
    return recursive && entry.kind === "folder"
      ? [...own, ...list(entry, `${prefix}${name}/`, `${path}/${name}`, true)]
      : own;
  });
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

function makeFolders(path: string, mode: number): string | undefined {
  let first: string | undefined;
  let made = "";
  for (const segment of path.split("/").filter((part) => part !== "" && part !== ".")) {
    made += `/${segment}`;
    const found = current().find(made, "mkdir");
    if (found.node === undefined) {
      current().add(found, "folder", mode, "mkdir", made);
      first ??= made;
    } else if (found.node.kind !== "folder") {
      throw fsError(made === path.replace(/\/+$/, "") ? "EEXIST" : "ENOTDIR", "mkdir", path);
    }
  }
  return first;
}

function removeTree(path: string, syscall: string): void {
  const found = current().find(path, syscall, false);
  if (found.node?.kind === "folder")
    for (const name of [...found.node.entries.keys()]) removeTree(`${path}/${name}`, syscall);
  if (found.name !== "") current().unlink(found);
}

const setTimes = (node: FsNode, atime: unknown, mtime: unknown): void => {
  const toMs = (time: unknown): number => (time instanceof Date ? time.getTime() : Number(time) * 1_000);
  node.atimeMs = toMs(atime);
  node.mtimeMs = toMs(mtime);
};

function copyFile(from: PathLike, to: PathLike, mode = 0): void {
  const [source, target] = [toPath(from, "src"), toPath(to, "dest")];
  const node = current().get(source, "copyfile");
  if (node.kind === "folder") throw fsError("EISDIR", "copyfile", source, target);
  if (mode & 1 && current().find(target, "copyfile").node !== undefined)
    throw fsError("EEXIST", "copyfile", source, target);
  const made = openNode(target, readFlag("w"), node.mode, "copyfile");
  current().setBytes(made, node.bytes, "copyfile");
}

function copyAll(from: string, to: string, options: Options): void {
  const node = current().get(from, "cp");
  if (node.kind !== "folder") {
    const exists = current().find(to, "cp").node !== undefined;
    if (exists && options.force === false) {
      if (options.errorOnExist) throw fsError("EEXIST", "cp", from, to);
      return;
    }
    copyFile(from, to);
    return;
  }
  if (!options.recursive) throw fsError("EISDIR", "cp", from, to);
  if (`${to}/`.startsWith(`${from.replace(/\/$/, "")}/`)) throw fsError("EINVAL", "cp", from, to);
  makeFolders(to, node.mode);
  for (const name of node.entries.keys()) copyAll(`${from}/${name}`, `${to}/${name}`, options);
}

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
    copyAll(toPath(from, "src"), toPath(to, "dest"), options);
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

/** Resolves links and dot segments of an existing path. */
function resolveLinks(path: string): string {
  let done: string[] = [];
  const rest = path.split("/").filter((segment) => segment !== "" && segment !== ".");
  for (let segment = rest.shift(); segment !== undefined; segment = rest.shift()) {
    if (segment === "..") {
      done.pop();
      continue;
    }
    const { node } = current().find(`/${[...done, segment].join("/")}`, "lstat", false);
    if (node?.kind !== "link") {
      done.push(segment);
      continue;
    }
    if (node.target.startsWith("/")) done = [];
    rest.unshift(...node.target.split("/").filter((part) => part !== "" && part !== "."));
  }
  return `/${done.join("/")}`;
}
