// UTF-8 to text and back, for bodies: what is well-formed is made into text a thousand characters at a time, several times as fast as by
// the decoder, which has streams, labels and errors to think of.
import { TextDecoder, TextEncoder } from "./encoding.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export const encodeUtf8 = (text: string): Uint8Array => encoder.encode(text);
/** For text that comes in pieces. */
export const makeDecoder = (): InstanceType<typeof TextDecoder> => new TextDecoder();

const RUN_BYTES = 1_024;
/** Of one run; those that hold more bytes are malformed. */
const units = new Uint16Array(RUN_BYTES + 8);

const isContinuation = (byte: number | undefined): boolean => ((byte as number) & 0xc0) === 0x80;

/** Fills `units` and tells how many; below 0 for bytes that are malformed. */
function readRun(bytes: Uint8Array): number {
  let length = 0;
  for (let index = 0; index < bytes.length; ) {
    const first = bytes[index] as number;
    if (first < 0x80) {
      units[length] = first;
      length += 1;
      index += 1;
      continue;
    }
    const more = first < 0xc2 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : 0;
    if (more === 0) return -1;
    let scalar = first & (0x3f >> more);
    for (let step = 1; step <= more; step += 1) {
      if (!isContinuation(bytes[index + step])) return -1;
      scalar = (scalar << 6) | ((bytes[index + step] as number) & 0x3f);
    }
    // Too long for what it says, a surrogate, or past the last character.
    if ((more === 2 && (scalar < 0x800 || (scalar >= 0xd800 && scalar < 0xe000))) || (more === 3 && scalar < 0x10000))
      return -1;
    if (scalar > 0x10ffff) return -1;
    if (scalar > 0xffff) {
      units[length] = 0xd7c0 + (scalar >> 10);
      length += 1;
    }
    units[length] = scalar > 0xffff ? 0xdc00 + (scalar & 0x3ff) : scalar;
    length += 1;
    index += more + 1;
  }
  return length;
}

function decodeRun(bytes: Uint8Array): string {
  const length = bytes.length > units.length ? -1 : readRun(bytes);
  return length < 0 ? decoder.decode(bytes) : String.fromCharCode.apply(null, units.subarray(0, length) as never);
}

/** Without a byte order mark, unless it is kept; what is malformed is replaced. */
export function decodeUtf8(bytes: Uint8Array, { keepsMark = false }: { readonly keepsMark?: boolean } = {}): string {
  const pieces: string[] = [];
  let at = !keepsMark && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  while (at < bytes.length) {
    let end = Math.min(at + RUN_BYTES, bytes.length);
    // Never within a character: a run goes on to a byte that begins one.
    while (end < bytes.length && isContinuation(bytes[end])) end += 1;
    pieces.push(decodeRun(bytes.subarray(at, end)));
    at = end;
  }
  return pieces.join("");
}
