// Encodes and decodes base64 for bytes that cross between guest and host as JSON: bodies of fetch and members of ctx.
import { fromLatin1Bytes } from "./code-units.ts";

/** V8's own codec. V8 has it since 14.1, but Node 24 contains V8 13.6. */
interface NativeBase64 {
  readonly prototype: { readonly toBase64?: (this: Uint8Array) => string };
  readonly fromBase64?: (text: string) => Uint8Array<ArrayBuffer>;
}
const native = Uint8Array as unknown as NativeBase64;

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PADDING = 61;
/** Marks a character code outside the alphabet. */
const INVALID = 255;

interface Tables {
  /** Character code of each of the 64 values. */
  readonly codes: Uint8Array;
  /** Value of each character code below 256. */
  readonly values: Uint8Array;
}
let tables: Tables | undefined;

function getTables(): Tables {
  if (tables !== undefined) return tables;
  const codes = Uint8Array.from(ALPHABET, (character) => character.charCodeAt(0));
  const values = new Uint8Array(256).fill(INVALID);
  codes.forEach((code, value) => {
    values[code] = value;
  });
  tables = { codes, values };
  return tables;
}

/** Encodes without V8's codec. */
export function encodeBase64(bytes: Uint8Array): string {
  const { codes } = getTables();
  const output = new Uint8Array(Math.ceil(bytes.length / 3) * 4);
  for (let index = 0, at = 0; index < bytes.length; index += 3, at += 4) {
    const left = bytes.length - index;
    const group = ((bytes[index] as number) << 16) | ((bytes[index + 1] as number) << 8) | (bytes[index + 2] as number);
    output[at] = codes[group >> 18] as number;
    output[at + 1] = codes[(group >> 12) & 63] as number;
    output[at + 2] = left > 1 ? (codes[(group >> 6) & 63] as number) : PADDING;
    output[at + 3] = left > 2 ? (codes[group & 63] as number) : PADDING;
  }
  return fromLatin1Bytes(output);
}

/** Returns the text without white space and padding. Padding must fill the last group of four. */
function stripBase64(text: string): string {
  const compact = text.replace(/[\t\n\f\r ]/g, "");
  const [padding = ""] = /={0,2}$/.exec(compact) ?? [];
  const data = compact.slice(0, compact.length - padding.length);
  if (data.length % 4 === 1 || (padding !== "" && compact.length % 4 !== 0)) throw new SyntaxError("Invalid base64");
  return data;
}

/**
 * Decodes without V8's codec. Accepts white space and missing padding, as `Uint8Array.fromBase64` does.
 * @throws {SyntaxError} for text that is not base64
 */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  const { values } = getTables();
  const data = stripBase64(text);
  const bytes = new Uint8Array(Math.floor((data.length * 3) / 4));
  let bits = 0;
  let bitCount = 0;
  let at = 0;
  for (let index = 0; index < data.length; index += 1) {
    const value = values[data.charCodeAt(index)] ?? INVALID;
    if (value === INVALID) throw new SyntaxError("Invalid base64");
    bits = ((bits << 6) | value) & 0xffffff;
    bitCount += 6;
    if (bitCount < 8) continue;
    bitCount -= 8;
    bytes[at] = (bits >> bitCount) & 255;
    at += 1;
  }
  return bytes;
}

export function toBase64(bytes: Uint8Array): string {
  const { toBase64: encode } = native.prototype;
  return encode === undefined ? encodeBase64(bytes) : encode.call(bytes);
}

/** @throws {SyntaxError} for text that is not base64 */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return native.fromBase64 === undefined ? decodeBase64(text) : native.fromBase64(text);
}
