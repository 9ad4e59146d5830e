// Implements atob and btoa with the Infra standard's forgiving-base64.
import { createDomException } from "../../module-loader.ts";
import {
  ArrayPrototypeJoin,
  append,
  StringConstructor,
  StringFromCharCode,
  StringPrototypeCharCodeAt,
  StringPrototypeIndexOf,
  StringPrototypeSlice,
  TypeErrorConstructor,
} from "../../primordials.ts";

/** Copied from the prelude's primordials, because they are called for each character. */
const charCodeAt = StringPrototypeCharCodeAt;
const fromCharCode = StringFromCharCode;

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/** Length of the pieces that are joined once: appending to one string a million times builds a rope that is slow to flatten. */
const CHUNK_UNITS = 4_096;

/** Returns the value of a character code, or a negative number outside the alphabet. */
function sextetOf(code: number): number {
  if (code >= 97) return code <= 122 ? code - 71 : -1;
  if (code >= 65) return code <= 90 ? code - 65 : -1;
  if (code >= 48) return code <= 57 ? code + 4 : -1;
  return code === 43 ? 62 : code === 47 ? 63 : -1;
}

function requireArgument(name: string, args: readonly unknown[]): string {
  if (args.length === 0) throw new TypeErrorConstructor(`${name} expected a string, got no argument`);
  return StringConstructor(args[0]);
}

/** Encodes bytes, given as a binary string, as base64. */
export function btoa(...args: readonly unknown[]): string {
  const text = requireArgument("btoa", args);
  const pieces: string[] = [];
  let piece = "";
  for (let index = 0; index < text.length; index += 3) {
    const a = charCodeAt(text, index);
    const hasB = index + 1 < text.length;
    const hasC = index + 2 < text.length;
    const b = hasB ? charCodeAt(text, index + 1) : 0;
    const c = hasC ? charCodeAt(text, index + 2) : 0;
    if (a > 255 || b > 255 || c > 255) {
      throw createDomException("btoa expected only characters below U+0100", "InvalidCharacterError");
    }
    piece +=
      (ALPHABET[a >> 2] as string) +
      ALPHABET[((a & 3) << 4) | (b >> 4)] +
      (hasB ? ALPHABET[((b & 15) << 2) | (c >> 6)] : "=") +
      (hasC ? ALPHABET[c & 63] : "=");
    if (piece.length >= CHUNK_UNITS) {
      append(pieces, piece);
      piece = "";
    }
  }
  append(pieces, piece);
  return ArrayPrototypeJoin(pieces, "");
}

const invalid = (): Error => createDomException("atob expected base64 text", "InvalidCharacterError");

/** Returns the significant characters: without ASCII white space, and without padding where the length allows it. */
function stripBase64(text: string): string {
  const pieces: string[] = [];
  let start = 0;
  for (let index = 0; index <= text.length; index += 1) {
    if (index === text.length || StringPrototypeIndexOf("\t\n\f\r ", text[index] as string) >= 0) {
      if (index > start) append(pieces, StringPrototypeSlice(text, start, index));
      start = index + 1;
    }
  }
  const joined = ArrayPrototypeJoin(pieces, "");
  if (joined.length % 4 !== 0) return joined;
  const padding = joined[joined.length - 1] === "=" ? (joined[joined.length - 2] === "=" ? 2 : 1) : 0;
  return StringPrototypeSlice(joined, 0, joined.length - padding);
}

/** Decodes base64 to bytes, returned as a binary string. */
export function atob(...args: readonly unknown[]): string {
  const data = stripBase64(requireArgument("atob", args));
  if (data.length % 4 === 1) throw invalid();
  const pieces: string[] = [];
  let piece = "";
  let bits = 0;
  let bitCount = 0;
  for (let index = 0; index < data.length; index += 1) {
    const sextet = sextetOf(charCodeAt(data, index));
    if (sextet < 0) throw invalid();
    bits = ((bits << 6) | sextet) & 0xffffff;
    bitCount += 6;
    if (bitCount >= 8) {
      bitCount -= 8;
      piece += fromCharCode((bits >> bitCount) & 255);
    }
    if (piece.length >= CHUNK_UNITS) {
      append(pieces, piece);
      piece = "";
    }
  }
  append(pieces, piece);
  return ArrayPrototypeJoin(pieces, "");
}
