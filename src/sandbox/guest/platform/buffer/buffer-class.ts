// Buffer: the package buffer with Node's additional encodings, and with V8's own codecs where they exist.
import * as base from "buffer/";
import { markBytesOf } from "../../bytes-text.ts";
import { nameClasses } from "../shared/class-names.ts";
import { checkRange, invalidArgument, nodeError, unknownEncoding } from "../shared/node-error.ts";
import { fromBase64 as decodeBase64, toBase64 } from "./base64.ts";
import { checkOffset } from "./buffer-arguments.ts";
import { compareRanges, compareTwo, concatBytes, copyBytes, equalBytes, search } from "./buffer-bytes.ts";
import { numberMethods } from "./buffer-numbers.ts";
import { fromAsciiBytes, fromLatin1Bytes, fromUtf16Bytes, toLatin1Bytes, toUtf16Bytes } from "./code-units.ts";

interface NativeCodecs {
  toHex?: (this: Uint8Array) => string;
}
declare class TextDecoder {
  constructor(label: string, options?: { readonly fatal?: boolean; readonly ignoreBOM?: boolean });
  decode(bytes: Uint8Array): string;
}
declare class TextEncoder {
  encode(text: string): Uint8Array;
}

export const { Buffer } = base;
export type Buffer = base.Buffer;
export const { SlowBuffer } = base as unknown as { readonly SlowBuffer: unknown };

nameClasses({ Buffer });

// In a tool's output a Buffer is encoded as bytes, like any Uint8Array. Its `toJSON` applies only to JSON that a tool writes itself.
markBytesOf(Buffer.prototype);

const { toHex } = Uint8Array.prototype as unknown as NativeCodecs;
const prototype = Buffer.prototype as unknown as { [name: string]: (...args: never[]) => unknown };
const statics = Buffer as unknown as { [name: string]: unknown };

/** Returns Node's spelling of an encoding, or undefined for an unknown one. */
export function encodingName(encoding: unknown): string | undefined {
  const name = String(encoding).toLowerCase();
  if (name === "utf-8" || name === "") return "utf8";
  if (name === "binary") return "latin1";
  if (name === "ucs2" || name === "ucs-2" || name === "utf-16le") return "utf16le";
  return ["utf8", "latin1", "utf16le", "ascii", "hex", "base64", "base64url"].includes(name) ? name : undefined;
}

/** Decodes both alphabets, with or without padding, up to the first invalid character other than white space, as Node does. */
function fromBase64(text: string): Uint8Array {
  const [data = ""] = text.replace(/[^A-Za-z0-9+/_=-]/g, "").split("=");
  const plain = data.replaceAll("-", "+").replaceAll("_", "/");
  const whole = plain.length % 4 === 1 ? plain.slice(0, -1) : plain;
  return decodeBase64(whole);
}

/** Decodes pairs of digits up to the first invalid one. */
function fromHex(text: string): Uint8Array {
  const [digits = ""] = /^(?:[0-9a-f]{2})*/i.exec(text) ?? [];
  const bytes = new Uint8Array(digits.length / 2);
  for (let index = 0; index < bytes.length; index += 1) {
    bytes[index] = Number.parseInt(digits.slice(index * 2, index * 2 + 2), 16);
  }
  return bytes;
}

const HEX_DIGITS = "0123456789abcdef";

/** Returns the bytes of text in an encoding that the package reads differently from Node. */
function readEncoded(text: string, encoding: unknown): Uint8Array | undefined {
  const name = typeof encoding === "string" ? encodingName(encoding) : undefined;
  if (name === "base64" || name === "base64url") return fromBase64(text);
  return name === "hex" ? fromHex(text) : undefined;
}

/** Returns the bytes of text in any encoding but UTF-8. The package makes a list of numbers of it first. */
function toBytes(text: string, encoding: string): Uint8Array | undefined {
  if (encoding === "latin1" || encoding === "ascii") return toLatin1Bytes(text);
  return encoding === "utf16le" ? toUtf16Bytes(text) : readEncoded(text, encoding);
}

const toBase64Url = (text: string): string => text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");

/** Methods of the package that do not support base64url, or that are slower than V8's. */
const packageFrom = statics.from as (...args: unknown[]) => Buffer;
const packageWrite = prototype.write as unknown as (this: Buffer, ...args: unknown[]) => number;
const packageAlloc = statics.alloc as (size: number) => Buffer;
const packageFill = prototype.fill as unknown as (this: Buffer, ...args: unknown[]) => Buffer;
const packageByteLength = statics.byteLength as (...args: unknown[]) => number;

/** @throws {TypeError | RangeError} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE */
function allocate(size: unknown): Buffer {
  checkRange(size, "size", 0, Number.MAX_SAFE_INTEGER);
  return packageAlloc(size);
}

const asBuffer = (bytes: Uint8Array): Buffer => packageFrom(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const isBase64 = (encoding: unknown): boolean => {
  const name = typeof encoding === "string" ? encodingName(encoding) : undefined;
  return name === "base64" || name === "base64url";
};

const CONVERTIBLE = "of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object";

/** Gives an error of the package's `from()` the code that it has in Node. Errors of the value's own methods stay as they are. */
function asNodeError(error: unknown, value: unknown): unknown {
  if (error instanceof RangeError && error.message.endsWith("is outside of buffer bounds"))
    return nodeError(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", error.message);
  if (error instanceof TypeError && error.message.startsWith("The first argument must be"))
    return invalidArgument("first argument", CONVERTIBLE, value);
  return error;
}

const isArrayBuffer = (value: unknown): boolean =>
  value instanceof ArrayBuffer || Object.prototype.toString.call(value) === "[object SharedArrayBuffer]";

const replacements = {
  // These are functions, not methods: packages such as form-data and wpapi call them with `new`.
  from: function from(value: unknown, encoding?: unknown, length?: unknown): Buffer {
    if (typeof value === "string") {
      const name = typeof encoding === "string" ? encodingName(encoding) : "utf8";
      if (name === undefined) throw unknownEncoding(encoding);
      return asBuffer(toBytes(value, name) ?? new TextEncoder().encode(value));
    }
    if (typeof value === "number") throw invalidArgument("first argument", CONVERTIBLE, value);
    try {
      return packageFrom(value, encoding, length);
    } catch (error) {
      throw asNodeError(error, value);
    }
  },
  byteLength(value: unknown, encoding?: unknown): number {
    if (typeof value === "string" && isBase64(encoding)) {
      const bits = value.replace(/=+$/, "").length * 6;
      return Math.floor(bits / 8);
    }
    if (typeof value !== "string" && !ArrayBuffer.isView(value) && !isArrayBuffer(value))
      throw invalidArgument("string", "of type string or an instance of Buffer or ArrayBuffer", value);
    return packageByteLength(value, encoding);
  },
  alloc: function alloc(size: number, fill?: unknown, encoding?: unknown): Buffer {
    const made = allocate(size);
    return fill === undefined || size === 0 ? made : made.fill(fill as string, encoding as never);
  },
  allocUnsafe: function allocUnsafe(size: number): Buffer {
    return allocate(size);
  },
  allocUnsafeSlow: function allocUnsafeSlow(size: number): Buffer {
    return allocate(size);
  },
  compare: (left: unknown, right: unknown): number => compareTwo(left, right),
  concat: (list: unknown, length?: unknown): Buffer => concatBytes(list, length, allocate),
  isEncoding: (encoding: unknown): boolean =>
    typeof encoding === "string" && encoding !== "" && encodingName(encoding) !== undefined,
  copyBytesFrom(view: ArrayBufferView & { readonly length?: number }, offset = 0, length?: number): Buffer {
    const typed = view as unknown as Uint8Array;
    const slice = typed.slice(offset, length === undefined ? undefined : offset + length);
    return packageFrom(slice.buffer, slice.byteOffset, slice.byteLength);
  },
};

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** Encodes without V8's codec. */
function encodeHex(bytes: Uint8Array): string {
  const digits = new Uint8Array(bytes.length * 2);
  for (let index = 0; index < bytes.length; index += 1) {
    const byte = bytes[index] as number;
    digits[index * 2] = HEX_DIGITS.charCodeAt(byte >> 4);
    digits[index * 2 + 1] = HEX_DIGITS.charCodeAt(byte & 15);
  }
  return fromLatin1Bytes(digits);
}

/** @param name Node's spelling of the encoding */
function sliceToString(buffer: Buffer, name: string, start: number, end: number): string {
  const bytes = new Uint8Array(buffer.buffer, buffer.byteOffset + start, Math.max(0, end - start));
  if (name === "utf8") return utf8.decode(bytes);
  if (name === "latin1") return fromLatin1Bytes(bytes);
  if (name === "ascii") return fromAsciiBytes(bytes);
  if (name === "utf16le") return fromUtf16Bytes(bytes);
  if (name === "hex") return toHex === undefined ? encodeHex(bytes) : Reflect.apply(toHex, bytes, []);
  const text = toBase64(bytes);
  return name === "base64" ? text : toBase64Url(text);
}

/** Bytes that `util.inspect()` shows. */
export const INSPECTED_BYTES = 50;

/** Codecs of a search in a buffer. */
const encodings = {
  nameOf: encodingName,
  toBytes: (text: string, encoding: string): Uint8Array => replacements.from(text, encoding),
};

const methods = {
  fill(this: Buffer, value: unknown, ...rest: unknown[]): Buffer {
    const encoding = rest.find((one) => typeof one === "string");
    const bytes = typeof value === "string" ? readEncoded(value, encoding) : undefined;
    if (bytes?.length === 0)
      throw nodeError(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'value' is invalid. Received '${value}'`);
    return Reflect.apply(
      packageFill,
      this,
      bytes === undefined ? [value, ...rest] : [bytes, ...rest.filter((one) => one !== encoding)],
    );
  },
  toString(this: Buffer, ...[encoding, start, end]: readonly unknown[]): string {
    const { length } = this;
    const from = (start as number) <= 0 ? 0 : Math.trunc(start as number) || 0;
    const to = end === undefined || (end as number) > length ? length : Math.trunc(end as number) || 0;
    if (from >= length || to <= from) return "";
    const name = encoding === undefined ? "utf8" : encodingName(encoding);
    if (name === undefined || encoding === "") throw unknownEncoding(encoding);
    return sliceToString(this, name, from, to);
  },
  write(this: Buffer, text: unknown, ...given: readonly unknown[]): number {
    const [offset, length, encoding] = readWriteArguments(this.length, given);
    if (typeof text !== "string") throw nodeError(TypeError, "ERR_INVALID_ARG_TYPE", "argument must be a string");
    // No encoding has less than half a byte for a character that it reads, but base64 and hex skip some.
    const isUnits = encoding === "latin1" || encoding === "ascii" || encoding === "utf16le";
    const read = toBytes(isUnits ? text.slice(0, length) : text, encoding);
    if (read === undefined) {
      // In a view of these bytes alone: the package would write a part of a character where more bytes follow.
      const room = Buffer.from(this.buffer, this.byteOffset + offset, length);
      return Reflect.apply(packageWrite, room, [text, 0, length, encoding]) as number;
    }
    const bytes = read.subarray(0, encoding === "utf16le" ? length - (length % 2) : length);
    this.set(bytes, offset);
    return bytes.length;
  },
  inspect(this: Buffer): string {
    const shown = this.toString("hex", 0, INSPECTED_BYTES).replace(/..(?!$)/g, "$& ");
    const left = this.length - INSPECTED_BYTES;
    const more = left > 0 ? ` ... ${left} more byte${left > 1 ? "s" : ""}` : "";
    return `<${this.constructor.name} ${shown}${more}>`;
  },
  compare(this: Buffer, target: unknown, ...limits: readonly unknown[]): number {
    return compareRanges(this, target, limits);
  },
  equals(this: Buffer, other: unknown): boolean {
    return equalBytes(this, other);
  },
  copy(this: Buffer, target: unknown, ...limits: readonly unknown[]): number {
    return copyBytes(this, target, limits);
  },
  indexOf(this: Buffer, value: unknown, byteOffset?: unknown, encoding?: unknown): number {
    return search(this, { value, byteOffset, encoding, isForward: true }, encodings);
  },
  lastIndexOf(this: Buffer, value: unknown, byteOffset?: unknown, encoding?: unknown): number {
    return search(this, { value, byteOffset, encoding, isForward: false }, encodings);
  },
  includes(this: Buffer, value: unknown, byteOffset?: unknown, encoding?: unknown): boolean {
    return search(this, { value, byteOffset, encoding, isForward: true }, encodings) !== -1;
  },
  ...numberMethods,
};

/** Reads the optional arguments of `write()`: `offset`, `length` and `encoding`, of which the first two may be left out. */
function readWriteArguments(size: number, [first, second, third]: readonly unknown[]): [number, number, string] {
  if (first === undefined) return [0, size, "utf8"];
  if (typeof first === "string" && second === undefined) return [0, size, readEncoding(first)];
  const offset = checkOffset(first, "offset", size);
  const left = size - offset;
  if (second === undefined) return [offset, left, readEncoding(third)];
  if (typeof second === "string") return [offset, left, readEncoding(second)];
  return [offset, Math.min(checkOffset(second, "length", size), left), readEncoding(third)];
}

function readEncoding(encoding: unknown): string {
  const name = encoding ? encodingName(encoding) : "utf8";
  if (name === undefined) throw unknownEncoding(encoding);
  return name;
}

/** The methods of the package whose error for an odd length has no code. */
const swaps = Object.fromEntries(
  [2, 4, 8].map((width) => {
    const name = `swap${width * 8}`;
    const swap = prototype[name] as (this: Buffer) => Buffer;
    const checked = function (this: Buffer): Buffer {
      if (this.length % width === 0) return Reflect.apply(swap, this, []);
      const message = `Buffer size must be a multiple of ${width * 8}-bits`;
      throw nodeError(RangeError, "ERR_INVALID_BUFFER_SIZE", message);
    };
    return [name, Object.defineProperty(checked, "name", { value: name })];
  }),
);

/** Defines enumerable members, as in Node: packages such as `safer-buffer` copy them with `for … in`. */
function define(target: object, values: { readonly [name: string]: unknown }): void {
  for (const [name, value] of Object.entries(values)) {
    Object.defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true });
  }
}
define(Buffer, replacements);
// Node's Buffer does not have this property. Packages use it to recognize a polyfill.
Reflect.deleteProperty(Buffer, "TYPED_ARRAY_SUPPORT");
define(Buffer.prototype, { ...methods, ...swaps, toLocaleString: methods.toString });
Object.defineProperty(Buffer.prototype, Symbol.for("nodejs.util.inspect.custom"), {
  value: methods.inspect,
  writable: true,
  configurable: true,
});
for (const name of ["latin1", "utf8", "hex", "base64", "base64url", "ascii", "ucs2"]) {
  define(Buffer.prototype, {
    [`${name}Slice`](this: Buffer, start?: number, end?: number) {
      return this.toString(name, start, end);
    },
    [`${name}Write`](this: Buffer, text: string, offset = 0, length = this.length - offset) {
      return this.write(text, offset, length, name);
    },
  });
}
