// Decoders of UTF-8 and UTF-16 (WHATWG Encoding) for TextDecoder, and the sink that collects their text.
import { withCode } from "../../error-text.ts";
import {
  ArrayPrototypeJoin,
  append,
  ReflectApply,
  StringFromCharCode,
  StringPrototypeSlice,
  TypeErrorConstructor,
} from "../../primordials.ts";

/** Copied from the prelude's primordials, because it is called for each character. */
const fromCharCode = StringFromCharCode;

/** Encodings that are always loaded. */
export type Encoding = "utf-8" | "utf-16le" | "utf-16be" | "windows-1252";

/** Length of the pieces of text: appending to one string a million times builds a rope that is slow to flatten. */
const PIECE_LENGTH = 1_024;
const REPLACEMENT = 0xfffd;

/** Creates the error of a fatal decoder. */
export const invalidBytes = (encoding: string): Error =>
  withCode(
    new TypeErrorConstructor(`TextDecoder: the bytes are not valid ${encoding}`),
    "ERR_ENCODING_INVALID_ENCODED_DATA",
  );

/** Returns the number of bytes of a code point in UTF-8. */
export const utf8Length = (scalar: number): number =>
  scalar < 0x80 ? 1 : scalar < 0x800 ? 2 : scalar < 0x10000 ? 3 : 4;

/** State of a streaming decode: the incomplete end of the last chunk. */
export interface DecoderState {
  needed: number;
  seen: number;
  scalar: number;
  lower: number;
  upper: number;
  /** Pending byte and pending high surrogate of UTF-16. */
  byte: number;
  lead: number;
  bomSeen: boolean;
}

export const freshState = (): DecoderState => ({
  needed: 0,
  seen: 0,
  scalar: 0,
  lower: 0x80,
  upper: 0xbf,
  byte: -1,
  lead: -1,
  bomSeen: false,
});

/** The standard's "UTF-8 decoder", byte by byte. {@link TextSink.takeRun} handles well-formed, complete characters. */
export function decodeUtf8(bytes: Uint8Array, length: number, state: DecoderState, sink: TextSink): void {
  for (let index = 0; index < length; index += 1) {
    if (state.needed === 0) {
      index = sink.takeRun(bytes, index, length);
      if (index >= length) return;
    }
    const byte = bytes[index] as number;
    if (state.needed === 0) {
      if (byte < 0x80) sink.emit(byte);
      else if (byte >= 0xc2 && byte <= 0xdf) {
        state.needed = 1;
        state.scalar = byte & 0x1f;
      } else if (byte >= 0xe0 && byte <= 0xef) {
        if (byte === 0xe0) state.lower = 0xa0;
        if (byte === 0xed) state.upper = 0x9f;
        state.needed = 2;
        state.scalar = byte & 0xf;
      } else if (byte >= 0xf0 && byte <= 0xf4) {
        if (byte === 0xf0) state.lower = 0x90;
        if (byte === 0xf4) state.upper = 0x8f;
        state.needed = 3;
        state.scalar = byte & 7;
      } else sink.malformed();
      continue;
    }
    if (byte < state.lower || byte > state.upper) {
      resetUtf8(state);
      sink.malformed();
      index -= 1;
      continue;
    }
    state.lower = 0x80;
    state.upper = 0xbf;
    state.scalar = (state.scalar << 6) | (byte & 63);
    state.seen += 1;
    if (state.seen === state.needed) {
      const scalar = state.scalar;
      resetUtf8(state);
      sink.emit(scalar);
    }
  }
}

function resetUtf8(state: DecoderState): void {
  state.needed = 0;
  state.seen = 0;
  state.scalar = 0;
  state.lower = 0x80;
  state.upper = 0xbf;
}

export function decodeUtf16(
  bytes: Uint8Array,
  length: number,
  bigEndian: boolean,
  state: DecoderState,
  sink: TextSink,
): void {
  for (let index = 0; index < length; index += 1) {
    const byte = bytes[index] as number;
    if (state.byte < 0) {
      state.byte = byte;
      continue;
    }
    const unit = bigEndian ? (state.byte << 8) | byte : (byte << 8) | state.byte;
    state.byte = -1;
    if (state.lead >= 0) {
      const lead = state.lead;
      state.lead = -1;
      if (unit >= 0xdc00 && unit <= 0xdfff) {
        sink.emit((lead - 0xd800) * 0x400 + (unit - 0xdc00) + 0x10000);
        continue;
      }
      sink.malformed();
    }
    if (unit >= 0xd800 && unit <= 0xdbff) state.lead = unit;
    else if (unit >= 0xdc00 && unit <= 0xdfff) sink.malformed();
    else sink.emit(unit);
  }
}

/** Code units of the text that is being decoded. It has a fixed length. Decodes do not overlap, because no guest code runs during one. */
const units: number[] = [];
for (let index = 0; index < PIECE_LENGTH; index += 1) append(units, 0);

const isContinuation = (byte: number | undefined): boolean => ((byte as number) & 0xc0) === 0x80;

/** Returns the non-ASCII character at `index` if it is well-formed and complete, otherwise -1. */
function wideScalarAt(bytes: Uint8Array, index: number, length: number): number {
  const first = bytes[index] as number;
  const more = first < 0xc2 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : 0;
  if (more === 0 || index + more >= length) return -1;
  let scalar = first & (0x3f >> more);
  for (let step = 1; step <= more; step += 1) {
    const byte = bytes[index + step];
    if (!isContinuation(byte)) return -1;
    scalar = (scalar << 6) | ((byte as number) & 0x3f);
  }
  // Rejects an overlong form, a surrogate, and a value past the last code point.
  if (more === 2 && (scalar < 0x800 || (scalar >= 0xd800 && scalar < 0xe000))) return -1;
  if (more === 3 && (scalar < 0x10000 || scalar > 0x10ffff)) return -1;
  return scalar;
}

/** Collects the text of one decode() call. Removes a byte order mark at the start of a stream. */
export class TextSink {
  readonly #pieces: string[] = [];
  readonly #state: DecoderState;
  readonly #fatalEncoding: Encoding | undefined;
  readonly #keepBom: boolean;
  #length = 0;

  constructor(state: DecoderState, fatalEncoding: Encoding | undefined, keepBom: boolean) {
    this.#state = state;
    this.#fatalEncoding = fatalEncoding;
    this.#keepBom = keepBom;
  }

  /** Appends one code point. */
  emit(scalar: number): void {
    if (!this.#state.bomSeen) {
      this.#state.bomSeen = true;
      if (scalar === 0xfeff && !this.#keepBom) return;
    }
    if (scalar > 0xffff) {
      this.#add(0xd7c0 + (scalar >> 10));
      this.#add(0xdc00 + (scalar & 0x3ff));
    } else this.#add(scalar);
  }

  /** Handles one decoding error. */
  malformed(): void {
    if (this.#fatalEncoding !== undefined) {
      throw invalidBytes(this.#fatalEncoding);
    }
    this.emit(REPLACEMENT);
  }

  /** Appends complete, well-formed characters once no byte order mark can follow. Returns the index of the first other byte. */
  takeRun(bytes: Uint8Array, from: number, length: number): number {
    if (!this.#state.bomSeen && (bytes[from] as number) > 0x7f) return from;
    this.#state.bomSeen = true;
    let at = this.#length;
    let index = from;
    while (index < length) {
      // A character has at most two code units.
      if (at + 2 > PIECE_LENGTH) {
        this.#length = at;
        this.#flush();
        at = 0;
      }
      const byte = bytes[index] as number;
      if (byte < 0x80) {
        units[at] = byte;
        at += 1;
        index += 1;
        continue;
      }
      const scalar = wideScalarAt(bytes, index, length);
      if (scalar < 0) break;
      if (scalar > 0xffff) {
        units[at] = 0xd7c0 + (scalar >> 10);
        units[at + 1] = 0xdc00 + (scalar & 0x3ff);
        at += 2;
      } else {
        units[at] = scalar;
        at += 1;
      }
      index += utf8Length(scalar);
    }
    this.#length = at;
    return index;
  }

  #add(unit: number): void {
    if (this.#length === PIECE_LENGTH) this.#flush();
    units[this.#length] = unit;
    this.#length += 1;
  }

  /** Appends all of `units` in one call if it is nearly full. Otherwise appends eight units per call. */
  #flush(): void {
    const length = this.#length;
    this.#length = 0;
    if (length * 2 > PIECE_LENGTH) {
      append(this.#pieces, StringPrototypeSlice(ReflectApply(fromCharCode, undefined, units) as string, 0, length));
      return;
    }
    let piece = "";
    let index = 0;
    for (; index + 8 <= length; index += 8) {
      piece += fromCharCode(
        units[index] as number,
        units[index + 1] as number,
        units[index + 2] as number,
        units[index + 3] as number,
        units[index + 4] as number,
        units[index + 5] as number,
        units[index + 6] as number,
        units[index + 7] as number,
      );
    }
    for (; index < length; index += 1) piece += fromCharCode(units[index] as number);
    append(this.#pieces, piece);
  }

  text(): string {
    this.#flush();
    return this.#pieces.length === 1 ? (this.#pieces[0] as string) : ArrayPrototypeJoin(this.#pieces, "");
  }
}
