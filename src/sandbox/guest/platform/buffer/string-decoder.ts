// node:string_decoder: decodes bytes that arrive in pieces, without splitting a character.

import { invalidArgument, unknownEncoding } from "../shared/node-error.ts";
import { Buffer, encodingName } from "./buffer-class.ts";

/** Returns the number of bytes at the end that are an incomplete character. */
type Unfinished = (bytes: Uint8Array) => number;

function unfinishedUtf8(bytes: Uint8Array): number {
  const maxBack = Math.min(3, bytes.length);
  for (let back = 1; back <= maxBack; back += 1) {
    const byte = bytes[bytes.length - back] as number;
    if (byte >= 0x80 && byte < 0xc0) continue;
    const needed = byte >= 0xf0 && byte < 0xf8 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return byte < 0xf8 && needed > back ? back : 0;
  }
  return 0;
}

function unfinishedUtf16(bytes: Uint8Array): number {
  const odd = bytes.length % 2;
  const high = bytes[bytes.length - odd - 1];
  return high !== undefined && bytes.length - odd >= 2 && high >= 0xd8 && high <= 0xdb ? odd + 2 : odd;
}

const UNFINISHED: { readonly [encoding: string]: Unfinished } = {
  utf8: unfinishedUtf8,
  utf16le: unfinishedUtf16,
  base64: (bytes) => bytes.length % 3,
  base64url: (bytes) => bytes.length % 3,
};

interface DecoderState {
  encoding: string;
  kept: Uint8Array;
}
const states = new WeakMap<object, DecoderState>();

function stateOf(decoder: object): DecoderState {
  const state = states.get(decoder);
  if (state === undefined) throw invalidArgument("this", "an instance of StringDecoder", decoder);
  return state;
}

interface StringDecoderShape {
  encoding: string;
  write(bytes: Uint8Array | string): string;
  end(bytes?: Uint8Array | string): string;
}

/** A function instead of a class: old packages call it on their own objects. */
export const StringDecoder = function StringDecoder(this: StringDecoderShape, encoding: unknown = "utf8"): void {
  const name = encodingName(encoding ?? "utf8");
  if (name === undefined) throw unknownEncoding(encoding);
  this.encoding = name;
  states.set(this, { encoding: name, kept: new Uint8Array(0) });
} as unknown as { new (encoding?: string): StringDecoderShape; prototype: StringDecoderShape };

const decode = (bytes: Uint8Array, encoding: string): string =>
  Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength).toString(encoding as "utf8");

StringDecoder.prototype.write = function write(this: StringDecoderShape, bytes: Uint8Array | string): string {
  if (typeof bytes === "string") return bytes;
  if (!ArrayBuffer.isView(bytes)) throw invalidArgument("buf", "an instance of Buffer, TypedArray, or DataView", bytes);
  const state = stateOf(this);
  const fresh = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let all = fresh;
  if (state.kept.length > 0) {
    all = new Uint8Array(state.kept.length + fresh.length);
    all.set(state.kept);
    all.set(fresh, state.kept.length);
  }
  const whole = all.length - (UNFINISHED[state.encoding]?.(all) ?? 0);
  state.kept = all.slice(whole);
  return decode(all.subarray(0, whole), state.encoding);
};

StringDecoder.prototype.end = function end(this: StringDecoderShape, bytes?: Uint8Array | string): string {
  const text = bytes === undefined ? "" : this.write(bytes);
  const state = stateOf(this);
  const { kept } = state;
  state.kept = new Uint8Array(0);
  if (state.encoding === "utf8" && kept.length > 0) return `${text}\ufffd`;
  return text + decode(state.encoding === "utf16le" ? kept.subarray(0, kept.length & ~1) : kept, state.encoding);
};
