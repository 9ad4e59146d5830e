// The in-memory volume of the current call, and the files that it has open.
import { callSerial } from "../../call-state.ts";
import { Buffer } from "../buffer/node-buffer.ts";
import { checkNumber, invalidArgument } from "../shared/node-error.ts";
import { checkWritable, type FsNode, fsError, Volume } from "./fs-volume.ts";

export type PathLike = string | Uint8Array | { readonly href: string; readonly pathname: string };

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

export function current(): Volume {
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

export interface OpenFile {
  readonly node: FsNode;
  readonly path: string;
  readonly canRead: boolean;
  readonly canWrite: boolean;
  readonly appends: boolean;
  position: number;
}
export const files = new Map<number, OpenFile>();
export const FIRST_DESCRIPTOR = 3;
export const MAX_OPEN = 1_024;

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

export function readFlag(flag: string | number): FlagMeaning {
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

export function openNode(path: string, meaning: FlagMeaning, mode: number, syscall: string): FsNode {
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

export function fileOf(descriptor: unknown, syscall: string): OpenFile {
  checkNumber(descriptor, "fd");
  current();
  const file = files.get(descriptor);
  if (file === undefined) throw fsError("EBADF", syscall);
  return file;
}

/**
 * The file that may write behind its bytes in their buffer. Copies of a file and of the volume share the bytes; they get a buffer of their own
 * when they grow.
 */
const growing = new WeakMap<ArrayBufferLike, FsNode>();

export function writeAt(node: FsNode, bytes: Uint8Array, position: number, syscall: string): void {
  const size = Math.max(node.bytes.length, position + bytes.length);
  current().canGrow(size - node.bytes.length, syscall);
  checkWritable(node, syscall);
  const next = position > 0 && position === node.bytes.length ? withRoom(node, size) : new Uint8Array(size);
  if (next.buffer !== node.bytes.buffer) next.set(node.bytes);
  next.set(bytes, position);
  current().setBytes(node, next, syscall);
}

/** Returns bytes of this size for a file that is appended to, with room for more: many small writes would otherwise copy the file each time. */
function withRoom(node: FsNode, size: number): Uint8Array {
  const { buffer } = node.bytes;
  if (growing.get(buffer) === node && size <= buffer.byteLength) return new Uint8Array(buffer, 0, size);
  const larger = new ArrayBuffer(size + Math.ceil(size / 2));
  growing.set(larger, node);
  return new Uint8Array(larger, 0, size);
}
