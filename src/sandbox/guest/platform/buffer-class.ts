// Buffer: the package buffer with Node's additional encodings, and with V8's own codecs where they exist.
import * as base from "buffer/";
import { markBytesOf } from "../bytes-text.ts";
import { fromBase64 as decodeBase64, toBase64 } from "./base64.ts";
import { nameClasses } from "./class-names.ts";
import { invalidArgument } from "./node-error.ts";

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

/** Returns the bytes of text in an encoding that the package reads differently from Node. */
function readEncoded(text: string, encoding: unknown): Uint8Array | undefined {
  const name = typeof encoding === "string" ? encodingName(encoding) : undefined;
  if (name === "base64" || name === "base64url") return fromBase64(text);
  return name === "hex" ? fromHex(text) : undefined;
}

const toBase64Url = (text: string): string => text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");

/** Methods of the package that do not support base64url, or that are slower than V8's. */
const packageFrom = statics.from as (...args: unknown[]) => Buffer;
const packageToString = prototype.toString as unknown as (this: Buffer, ...args: unknown[]) => string;
const packageWrite = prototype.write as unknown as (this: Buffer, ...args: unknown[]) => number;
const packageAlloc = statics.alloc as (size: number) => Buffer;
const packageFill = prototype.fill as unknown as (this: Buffer, ...args: unknown[]) => Buffer;
const packageByteLength = statics.byteLength as (...args: unknown[]) => number;

const asBuffer = (bytes: Uint8Array): Buffer => packageFrom(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const isBase64 = (encoding: unknown): boolean => {
  const name = typeof encoding === "string" ? encodingName(encoding) : undefined;
  return name === "base64" || name === "base64url";
};

const replacements = {
  from(value: unknown, encoding?: unknown, length?: unknown): Buffer {
    if (typeof value === "string") {
      if (encoding === undefined || encoding === null || encodingName(encoding) === "utf8") {
        return asBuffer(new TextEncoder().encode(value));
      }
      const bytes = readEncoded(value, encoding);
      if (bytes !== undefined) return asBuffer(bytes);
    }
    if (typeof value === "number") {
      throw invalidArgument(
        "value",
        "of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object",
        value,
      );
    }
    return packageFrom(value, encoding, length);
  },
  byteLength(value: unknown, encoding?: unknown): number {
    if (typeof value === "string" && isBase64(encoding)) {
      const bits = value.replace(/=+$/, "").length * 6;
      return Math.floor(bits / 8);
    }
    return packageByteLength(value, encoding);
  },
  // A regular function, because form-data calls it with `new`.
  alloc: function alloc(size: number, fill?: unknown, encoding?: unknown): Buffer {
    const made = packageAlloc(size);
    return fill === undefined || size === 0 ? made : made.fill(fill as string, encoding as never);
  },
  isEncoding: (encoding: unknown): boolean =>
    typeof encoding === "string" && encoding !== "" && encodingName(encoding) !== undefined,
  copyBytesFrom(view: ArrayBufferView & { readonly length?: number }, offset = 0, length?: number): Buffer {
    const typed = view as unknown as Uint8Array;
    const slice = typed.slice(offset, length === undefined ? undefined : offset + length);
    return packageFrom(slice.buffer, slice.byteOffset, slice.byteLength);
  },
};

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

function sliceToString(buffer: Buffer, encoding: unknown, start: number, end: number): string | undefined {
  const name = encoding === undefined ? "utf8" : encodingName(encoding);
  if (name === undefined) return undefined;
  const bytes = new Uint8Array(buffer.buffer, buffer.byteOffset + start, Math.max(0, end - start));
  if (name === "utf8") return utf8.decode(bytes);
  if (name === "hex" && toHex !== undefined) return Reflect.apply(toHex, bytes, []);
  if (name !== "base64" && name !== "base64url") return undefined;
  const text = toBase64(bytes);
  return name === "base64" ? text : toBase64Url(text);
}

const clampIndex = (value: unknown, length: number, otherwise: number): number => {
  if (value === undefined) return otherwise;
  const index = Math.trunc(Number(value)) || 0;
  return Math.min(Math.max(index, 0), length);
};

const methods = {
  fill(this: Buffer, value: unknown, ...rest: unknown[]): Buffer {
    const encoding = rest.find((one) => typeof one === "string");
    const bytes = typeof value === "string" ? readEncoded(value, encoding) : undefined;
    if (bytes?.length === 0) throw invalidArgument("value", "text in its encoding", value);
    return Reflect.apply(
      packageFill,
      this,
      bytes === undefined ? [value, ...rest] : [bytes, ...rest.filter((one) => one !== encoding)],
    );
  },
  toString(this: Buffer, encoding?: unknown, start?: unknown, end?: unknown): string {
    const to = clampIndex(end, this.length, this.length);
    const fast = sliceToString(this, encoding || undefined, clampIndex(start, this.length, 0), to);
    return fast ?? (Reflect.apply(packageToString, this, [encoding, start, end]) as string);
  },
  write(this: Buffer, text: string, ...rest: unknown[]): number {
    const encoding = rest.find((value) => typeof value === "string");
    const read = readEncoded(text, encoding);
    if (read === undefined) return Reflect.apply(packageWrite, this, [text, ...rest]) as number;
    const [offset = 0, length = this.length] = rest.filter((value) => typeof value === "number") as number[];
    const bytes = read.subarray(0, Math.min(length, this.length - offset));
    this.set(bytes, offset);
    return bytes.length;
  },
};

/** Defines enumerable members, as in Node: packages such as `safer-buffer` copy them with `for … in`. */
function define(target: object, values: { readonly [name: string]: unknown }): void {
  for (const [name, value] of Object.entries(values)) {
    Object.defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true });
  }
}
define(Buffer, replacements);
// Node's Buffer does not have this property. Packages use it to recognize a polyfill.
Reflect.deleteProperty(Buffer, "TYPED_ARRAY_SUPPORT");
define(Buffer.prototype, { ...methods, toLocaleString: methods.toString });
for (const name of ["BigUInt64LE", "BigUInt64BE"]) {
  const alias = name.replace("UInt", "Uint");
  define(Buffer.prototype, {
    [`read${alias}`]: prototype[`read${name}`],
    [`write${alias}`]: prototype[`write${name}`],
  });
}
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
