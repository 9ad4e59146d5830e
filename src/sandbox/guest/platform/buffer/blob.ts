// Blob and File (W3C File API). The bytes of a blob never change and leave it only as copies, so slices and clones share them.

import { callSerial } from "../../call-state.ts";
import { now } from "../../coarse-time.ts";
import { addPlatformType } from "../../platform-types.ts";
import { TextDecoder, TextEncoder } from "../encoding/encoding.ts";
import { pickFields, showAs } from "../fetch/fetch-inspect.ts";
import {
  bytesOf,
  defineInterface,
  requireArguments,
  toClampedInteger,
  toDictionary,
  toInteger,
} from "../shared/webidl.ts";
import { ReadableStream } from "../streams/streams.ts";

/** Size of the chunks of a blob's stream. */
const STREAM_BYTES = 64 * 1024;
const EMPTY = new Uint8Array(0);
const encoder = new TextEncoder();

/** Returns the type, or an empty string if it contains characters outside the printable ASCII range. */
function toType(value: unknown): string {
  const type = String(value);
  return /[^\x20-\x7e]/.test(type) ? "" : type.toLowerCase();
}

interface BlobSettings {
  readonly type: string;
  readonly nativeEndings: boolean;
}

/** Reads the members in alphabetical order, as Web IDL requires. */
function readSettings(options: unknown, what: string): BlobSettings {
  const dictionary = toDictionary(options, what);
  const { endings } = dictionary;
  const ending = endings === undefined ? "transparent" : String(endings);
  if (ending !== "transparent" && ending !== "native") {
    throw new TypeError(`${what} expected endings "transparent" or "native", got "${ending}"`);
  }
  const { type } = dictionary;
  return { type: type === undefined ? "" : toType(type), nativeEndings: ending === "native" };
}

/** Returns the bytes of each part, or its text if its line endings are not converted yet. */
function readParts(parts: unknown, what: string): (Uint8Array | string)[] {
  const isObject = (typeof parts === "object" && parts !== null) || typeof parts === "function";
  const iterate: unknown = isObject ? (parts as Iterable<unknown>)[Symbol.iterator] : undefined;
  if (typeof iterate !== "function") throw new TypeError(`${what} expected a sequence of parts`);
  const read: (Uint8Array | string)[] = [];
  // The iterator method is read once, because a getter could observe each read.
  for (const part of { [Symbol.iterator]: () => iterate.call(parts) as Iterator<unknown> }) {
    read.push(bytesOf(part) ?? (isBlob(part) ? blobBytes(part) : String(part)));
  }
  return read;
}

function join(parts: readonly (Uint8Array | string)[], nativeEndings: boolean): Uint8Array {
  const pieces = parts.map((part) =>
    typeof part === "string" ? encoder.encode(nativeEndings ? part.replace(/\r\n?/g, "\n") : part) : part,
  );
  const bytes = new Uint8Array(pieces.reduce((total, piece) => total + piece.byteLength, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.byteLength;
  }
  return bytes;
}

/** The bytes themselves, for other platform modules. They must not be modified. */
export let blobBytes: (blob: Blob) => Uint8Array;
export let isBlob: (value: unknown) => value is Blob;
/** Creates a blob of these bytes without copying them. */
let makeBlob: (bytes: Uint8Array, type: string) => Blob;

export class Blob {
  #bytes: Uint8Array = EMPTY;
  #type = "";

  static {
    blobBytes = (blob) => blob.#bytes;
    isBlob = (value): value is Blob => typeof value === "object" && value !== null && #bytes in value;
    makeBlob = (bytes, type) => {
      const blob = new Blob();
      blob.#bytes = bytes;
      blob.#type = type;
      return blob;
    };
  }

  constructor(parts: unknown = undefined, options: unknown = undefined) {
    const read = parts === undefined ? [] : readParts(parts, "Blob");
    const { type, nativeEndings } = readSettings(options, "Blob");
    this.#bytes = join(read, nativeEndings);
    this.#type = type;
  }

  get size(): number {
    return this.#bytes.byteLength;
  }

  get type(): string {
    return this.#type;
  }

  slice(start: unknown = undefined, end: unknown = undefined, contentType: unknown = undefined): Blob {
    const { byteLength: size } = this.#bytes;
    const at = (value: unknown, fallback: number): number => {
      if (value === undefined) return fallback;
      const index = toClampedInteger(value);
      return index < 0 ? Math.max(size + index, 0) : Math.min(index, size);
    };
    const from = at(start, 0);
    const to = at(end, size);
    const type = contentType === undefined ? "" : toType(contentType);
    return makeBlob(this.#bytes.subarray(from, Math.max(from, to)), type);
  }

  stream(): ReadableStream<Uint8Array> {
    const bytes = this.#bytes;
    let at = 0;
    return new ReadableStream({
      type: "bytes",
      pull: (controller) => {
        if (at < bytes.byteLength) {
          controller.enqueue(bytes.slice(at, at + STREAM_BYTES));
          at += STREAM_BYTES;
          return;
        }
        controller.close();
        controller.byobRequest?.respond(0);
      },
    });
  }

  async text(): Promise<string> {
    return new TextDecoder().decode(this.#bytes);
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return this.#bytes.slice().buffer as ArrayBuffer;
  }

  async bytes(): Promise<Uint8Array> {
    return this.#bytes.slice();
  }
}

export let isFile: (value: unknown) => value is File;
let cloneFile: (file: File) => File;

export class File extends Blob {
  readonly #name: string;
  readonly #lastModified: number;

  static {
    isFile = (value): value is File => typeof value === "object" && value !== null && #name in value;
    cloneFile = (file) => new File([file], file.#name, { type: file.type, lastModified: file.#lastModified });
  }

  constructor(parts: unknown, name: unknown, options: unknown = undefined) {
    requireArguments("File", 2, arguments.length);
    // In contrast to Blob, `parts` is required here.
    super(parts === undefined ? null : parts, options);
    this.#name = String(name).toWellFormed();
    const { lastModified } = toDictionary(options, "File");
    this.#lastModified = lastModified === undefined ? now() : toInteger(lastModified);
  }

  get name(): string {
    return this.#name;
  }

  get lastModified(): number {
    return this.#lastModified;
  }
}

declare const crypto: { randomUUID(): string };
const objectUrls = new Map<string, { readonly blob: Blob; readonly serial: number }>();

/** Drops the URLs of earlier calls. URLs that were created while the tool was loaded stay. */
function dropOldUrls(): void {
  for (const [url, { serial }] of objectUrls) if (serial !== 0 && serial !== callSerial()) objectUrls.delete(url);
}

/** Returns a URL for the blob that is valid until it is revoked or the call ends (File API, "blob URL store"). */
export function createObjectURL(...args: readonly [unknown?]): string {
  requireArguments("createObjectURL", 1, args.length);
  const [blob] = args;
  if (!isBlob(blob)) throw new TypeError("createObjectURL expected a Blob");
  dropOldUrls();
  // "null" is the serialized form of the opaque origin of a tool.
  const url = `blob:null/${crypto.randomUUID()}`;
  objectUrls.set(url, { blob, serial: callSerial() });
  return url;
}

export function revokeObjectURL(...args: readonly [unknown?]): void {
  requireArguments("revokeObjectURL", 1, args.length);
  objectUrls.delete(String(args[0]));
}

/** Returns the blob of a URL, whose fragment is ignored. */
export function resolveObjectURL(url: string): Blob | undefined {
  dropOldUrls();
  return objectUrls.get(url.replace(/#.*$/s, ""))?.blob;
}

defineInterface("Blob", Blob);
defineInterface("File", File);
addPlatformType({
  owns: isBlob,
  clone: (value) => (isFile(value) ? cloneFile(value) : makeBlob(blobBytes(value as Blob), (value as Blob).type)),
});

showAs("Blob", Blob, (blob) => pickFields(blob, ["size", "type"]));
showAs("File", File, (file) => pickFields(file, ["size", "type", "name", "lastModified"]));
