// TextEncoder and TextDecoder (WHATWG Encoding): UTF-8, UTF-16 and windows-1252. The other encodings are in a separate platform module.
import { withCode } from "../../error-text.ts";
import { usePlatformModule } from "../../module-loader.ts";
import {
  ArrayBufferConstructor,
  ArrayBufferIsView,
  DataViewPrototypeGetBuffer,
  DataViewPrototypeGetByteLength,
  DataViewPrototypeGetByteOffset,
  defineValue,
  ObjectPrototypeToString,
  RangeErrorConstructor,
  StringConstructor,
  StringPrototypeCharCodeAt,
  StringPrototypeIndexOf,
  StringPrototypeSlice,
  StringPrototypeToLowerCase,
  SymbolToStringTag,
  TypedArrayPrototypeGetBuffer,
  TypedArrayPrototypeGetByteLength,
  TypedArrayPrototypeGetByteOffset,
  TypedArrayPrototypeGetTag,
  TypeErrorConstructor,
  Uint8ArrayConstructor,
} from "../../primordials.ts";
import {
  type DecoderState,
  decodeUtf8,
  decodeUtf16,
  type Encoding,
  freshState,
  invalidBytes,
  TextSink,
  utf8Length,
} from "./encoding-decoders.ts";

/** Copied from the prelude's primordials, because they are called for each character. */
const charCodeAt = StringPrototypeCharCodeAt;

/** The Encoding standard's labels of the encodings in this file ("Names and labels"). */
const LABELS: { readonly [label: string]: Encoding } = {
  __proto__: null as never,
  "utf-8": "utf-8",
  utf8: "utf-8",
  "unicode-1-1-utf-8": "utf-8",
  unicode11utf8: "utf-8",
  unicode20utf8: "utf-8",
  "x-unicode20utf8": "utf-8",
  "utf-16": "utf-16le",
  "utf-16le": "utf-16le",
  "ucs-2": "utf-16le",
  "iso-10646-ucs-2": "utf-16le",
  unicode: "utf-16le",
  unicodefeff: "utf-16le",
  csunicode: "utf-16le",
  "utf-16be": "utf-16be",
  unicodefffe: "utf-16be",
  "ansi_x3.4-1968": "windows-1252",
  ascii: "windows-1252",
  cp1252: "windows-1252",
  cp819: "windows-1252",
  csisolatin1: "windows-1252",
  ibm819: "windows-1252",
  "iso-8859-1": "windows-1252",
  "iso-ir-100": "windows-1252",
  "iso8859-1": "windows-1252",
  iso88591: "windows-1252",
  "iso_8859-1": "windows-1252",
  "iso_8859-1:1987": "windows-1252",
  l1: "windows-1252",
  latin1: "windows-1252",
  "us-ascii": "windows-1252",
  "windows-1252": "windows-1252",
  "x-cp1252": "windows-1252",
};

/** A decoder of one of the other encodings. */
export interface LegacyDecoder {
  readonly encoding: string;
  decode(bytes: Uint8Array, options: { readonly stream: boolean }): string;
}
/** Returns undefined for an unknown label. */
type CreateLegacyDecoder = (label: string, fatal: boolean) => LegacyDecoder | undefined;

/** Loaded lazily, because the platform module is large and rarely used. */
const createLegacyDecoder: CreateLegacyDecoder = (label, fatal) =>
  (usePlatformModule("legacy-encodings").createLegacyDecoder as CreateLegacyDecoder)(label, fatal);

const ASCII_WHITESPACE = "\t\n\f\r ";
const isWhitespace = (character: string | undefined): boolean =>
  character !== undefined && StringPrototypeIndexOf(ASCII_WHITESPACE, character) >= 0;

/** "Get an encoding": removes white space around the label, ASCII white space only. */
function toLabel(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && isWhitespace(text[from])) from += 1;
  while (to > from && isWhitespace(text[to - 1])) to -= 1;
  return StringPrototypeToLowerCase(StringPrototypeSlice(text, from, to));
}

/** Code points of bytes 0x80-0x9F in windows-1252, from the standard's index. */
const WINDOWS_1252_HIGH: readonly number[] = [
  0x20ac, 0x81, 0x201a, 0x192, 0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039, 0x152, 0x8d, 0x17d, 0x8f,
  0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc, 0x2122, 0x161, 0x203a, 0x153, 0x9d, 0x17e, 0x178,
];
const REPLACEMENT = 0xfffd;

/** Returns the code point at `index`, with the replacement character for lone surrogates. */
function scalarAt(text: string, index: number): number {
  const unit = charCodeAt(text, index);
  if (unit < 0xd800 || unit > 0xdfff) return unit;
  if (unit > 0xdbff || index + 1 >= text.length) return REPLACEMENT;
  const low = charCodeAt(text, index + 1);
  if (low < 0xdc00 || low > 0xdfff) return REPLACEMENT;
  return (unit - 0xd800) * 0x400 + (low - 0xdc00) + 0x10000;
}

function writeUtf8(target: Uint8Array, at: number, scalar: number): void {
  if (scalar < 0x80) {
    target[at] = scalar;
  } else if (scalar < 0x800) {
    target[at] = 0xc0 | (scalar >> 6);
    target[at + 1] = 0x80 | (scalar & 63);
  } else if (scalar < 0x10000) {
    target[at] = 0xe0 | (scalar >> 12);
    target[at + 1] = 0x80 | ((scalar >> 6) & 63);
    target[at + 2] = 0x80 | (scalar & 63);
  } else {
    target[at] = 0xf0 | (scalar >> 18);
    target[at + 1] = 0x80 | ((scalar >> 12) & 63);
    target[at + 2] = 0x80 | ((scalar >> 6) & 63);
    target[at + 3] = 0x80 | (scalar & 63);
  }
}

/** Writes whole code points while they fit. Returns the UTF-16 code units read and the bytes written. */
function encodeInto(text: string, target: Uint8Array): { read: number; written: number } {
  const room = TypedArrayPrototypeGetByteLength(target);
  let read = 0;
  let written = 0;
  while (read < text.length) {
    const scalar = scalarAt(text, read);
    const length = utf8Length(scalar);
    if (written + length > room) break;
    writeUtf8(target, written, scalar);
    written += length;
    read += scalar > 0xffff ? 2 : 1;
  }
  return { read, written };
}

/** Returns the bytes of any view or buffer without copying them. */
function toBytes(input: unknown, what: string): Uint8Array {
  if (input === undefined) return new Uint8ArrayConstructor(0);
  if (TypedArrayPrototypeGetTag(input) !== undefined) {
    return new Uint8ArrayConstructor(
      TypedArrayPrototypeGetBuffer(input),
      TypedArrayPrototypeGetByteOffset(input),
      TypedArrayPrototypeGetByteLength(input),
    );
  }
  if (ArrayBufferIsView(input)) {
    return new Uint8ArrayConstructor(
      DataViewPrototypeGetBuffer(input),
      DataViewPrototypeGetByteOffset(input),
      DataViewPrototypeGetByteLength(input),
    );
  }
  if (input instanceof ArrayBufferConstructor || ObjectPrototypeToString(input) === "[object SharedArrayBuffer]") {
    return new Uint8ArrayConstructor(input as ArrayBuffer);
  }
  const message = `${what} expected an ArrayBuffer or a view of one, got ${ObjectPrototypeToString(input)}`;
  throw withCode(new TypeErrorConstructor(message), "ERR_INVALID_ARG_TYPE");
}

export class TextDecoder {
  readonly #encoding: Encoding | undefined;
  readonly #legacy: LegacyDecoder | undefined;
  readonly #fatal: boolean;
  readonly #ignoreBom: boolean;
  #state: DecoderState = freshState();
  #streaming = false;

  constructor(label: unknown = "utf-8", options?: { readonly fatal?: unknown; readonly ignoreBOM?: unknown }) {
    const text = toLabel(StringConstructor(label));
    this.#encoding = LABELS[text];
    this.#fatal = !!options?.fatal;
    this.#ignoreBom = !!options?.ignoreBOM;
    if (this.#encoding !== undefined) return;
    this.#legacy = createLegacyDecoder(text, this.#fatal);
    if (this.#legacy === undefined) {
      const message = `TextDecoder expected the label of an encoding, got "${StringPrototypeSlice(text, 0, 100)}"`;
      throw withCode(new RangeErrorConstructor(message), "ERR_ENCODING_NOT_SUPPORTED");
    }
  }

  get encoding(): string {
    return this.#encoding ?? (this.#legacy as LegacyDecoder).encoding;
  }
  get fatal(): boolean {
    return this.#fatal;
  }
  get ignoreBOM(): boolean {
    return this.#ignoreBom;
  }

  decode(input?: unknown, options?: { readonly stream?: unknown }): string {
    const bytes = toBytes(input, "TextDecoder.decode");
    const encoding = this.#encoding;
    if (encoding === undefined) return this.#decodeLegacy(bytes, !!options?.stream);
    if (!this.#streaming) this.#state = freshState();
    const isStream = !!options?.stream;
    const state = this.#state;
    const keepBom = this.#ignoreBom || encoding === "windows-1252";
    const sink = new TextSink(state, this.#fatal ? encoding : undefined, keepBom);
    // After an error the next decode starts with a new state.
    this.#streaming = false;
    this.#run(bytes, TypedArrayPrototypeGetByteLength(bytes), state, sink);
    if (!isStream && (state.needed > 0 || state.byte >= 0 || state.lead >= 0)) sink.malformed();
    this.#streaming = isStream;
    return sink.text();
  }

  #decodeLegacy(bytes: Uint8Array, stream: boolean): string {
    const decoder = this.#legacy as LegacyDecoder;
    try {
      return decoder.decode(bytes, { stream });
    } catch (error) {
      throw this.#fatal && error instanceof TypeErrorConstructor ? invalidBytes(decoder.encoding) : error;
    }
  }

  #run(bytes: Uint8Array, length: number, state: DecoderState, sink: TextSink): void {
    if (this.#encoding === "utf-8") decodeUtf8(bytes, length, state, sink);
    else if (this.#encoding === "windows-1252") {
      for (let index = 0; index < length; index += 1) {
        const byte = bytes[index] as number;
        sink.emit(byte >= 0x80 && byte <= 0x9f ? (WINDOWS_1252_HIGH[byte - 0x80] as number) : byte);
      }
    } else decodeUtf16(bytes, length, this.#encoding === "utf-16be", state, sink);
  }
}
defineValue(TextDecoder.prototype, SymbolToStringTag, "TextDecoder", false);

export class TextEncoder {
  get encoding(): string {
    return "utf-8";
  }

  encode(input: unknown = ""): Uint8Array {
    const text = StringConstructor(input);
    let length = 0;
    for (let index = 0; index < text.length; ) {
      const scalar = scalarAt(text, index);
      length += utf8Length(scalar);
      index += scalar > 0xffff ? 2 : 1;
    }
    const bytes = new Uint8ArrayConstructor(length);
    encodeInto(text, bytes);
    return bytes;
  }

  encodeInto(source: unknown, destination: unknown): { read: number; written: number } {
    if (TypedArrayPrototypeGetTag(destination) !== "Uint8Array") {
      throw new TypeErrorConstructor("TextEncoder.encodeInto expected a Uint8Array as its second argument");
    }
    return encodeInto(StringConstructor(source), destination as Uint8Array);
  }
}
defineValue(TextEncoder.prototype, SymbolToStringTag, "TextEncoder", false);
