// The binding below the deflate, gzip and raw streams of node:zlib, over pako: one step of the codec per write. Packages such as pngjs and
// minizlib call it directly, so its methods have the arguments of Node's binding.
import {
  Z_BUF_ERROR,
  Z_DATA_ERROR,
  Z_FINISH,
  Z_NEED_DICT,
  Z_OK,
  Z_STREAM_END,
  ZStream,
  zlibDeflate,
  zlibDeflateInit2,
  zlibDeflateReset,
  zlibDeflateSetDictionary,
  zlibInflate,
  zlibInflateInit2,
  zlibInflateReset,
  zlibInflateSetDictionary,
} from "pako";
import { ERROR_NAMES } from "./node-zlib-data.ts";

/** Node's numbers for the formats, as in `zlib.constants`. */
export const MODES = { Deflate: 1, Inflate: 2, Gzip: 3, Gunzip: 4, DeflateRaw: 5, InflateRaw: 6, Unzip: 7 } as const;
export type Format = keyof typeof MODES;

export interface ZlibSettings {
  readonly windowBits: number;
  readonly level: number;
  readonly memLevel: number;
  readonly strategy: number;
  readonly dictionary: Uint8Array | undefined;
}

export const isCompressor = (format: Format): boolean =>
  format === "Deflate" || format === "Gzip" || format === "DeflateRaw";

const METHOD_DEFLATED = 8;
const NOTHING = new Uint8Array(0);
const GZIP_ID = [31, 139] as const;

/** Fields of a compressor's state that depend on its level and strategy. */
const LEVEL_FIELDS = ["level", "strategy", "max_lazy_match", "good_match", "nice_match", "max_chain_length"] as const;
type CompressorState = { [Name in (typeof LEVEL_FIELDS)[number] | "matches"]: number } & { head: Uint16Array };

/** Encodes the wrapper in the window size, as zlib does. */
function wrappedWindowBits(format: Format, windowBits: number): number {
  if (format === "Gzip" || format === "Gunzip") return windowBits + 16;
  if (format === "Unzip") return windowBits + 32;
  return format === "DeflateRaw" || format === "InflateRaw" ? -windowBits : windowBits;
}

function openStream(format: Format, settings: ZlibSettings): ZStream {
  const { level, memLevel, strategy, dictionary } = settings;
  const stream = new ZStream();
  const windowBits = wrappedWindowBits(format, settings.windowBits);
  if (isCompressor(format)) {
    zlibDeflateInit2(stream, level, METHOD_DEFLATED, windowBits, memLevel, strategy as never);
    if (dictionary !== undefined && format !== "Gzip") zlibDeflateSetDictionary(stream, dictionary);
    return stream;
  }
  zlibInflateInit2(stream, windowBits);
  if (dictionary !== undefined && format === "InflateRaw") zlibInflateSetDictionary(stream, dictionary);
  return stream;
}

export class ZlibHandle {
  readonly #format: Format;
  readonly #settings: ZlibSettings;
  readonly #state: Uint32Array;
  readonly #stream: ZStream;
  /** Number of bytes of the gzip signature that an `Unzip` has seen. Undefined once the format is known. */
  #idBytesSeen: number | undefined;
  #isGunzip: boolean;
  #status: number = Z_OK;
  #isClosed = false;
  /** Called instead of throwing, as in Node's binding. */
  onerror: (message: string, errno: number, code: string) => void = () => {};

  /** @param state receives, after each write, the free space of the output and the remaining bytes of the input */
  constructor(format: Format, settings: ZlibSettings, state: Uint32Array) {
    this.#format = format;
    this.#settings = settings;
    this.#state = state;
    this.#idBytesSeen = format === "Unzip" ? 0 : undefined;
    this.#isGunzip = format === "Gunzip";
    this.#stream = openStream(format, settings);
  }

  /** Runs one step: consumes input until the output is full. */
  writeSync(
    flush: number,
    input: Uint8Array | null | undefined,
    inOffset: number,
    inLength: number,
    output: Uint8Array,
    outOffset: number,
    outLength: number,
  ): void {
    if (this.#isClosed) throw new Error("zlib binding closed");
    const stream = this.#stream;
    stream.input = input ?? NOTHING;
    stream.next_in = inOffset;
    stream.avail_in = inLength;
    stream.output = output as Uint8Array<ArrayBuffer>;
    stream.next_out = outOffset;
    stream.avail_out = outLength;
    if (isCompressor(this.#format)) this.#status = zlibDeflate(stream, flush as never);
    else this.#inflate(flush);
    const problem = this.#problem(flush);
    if (problem !== undefined) {
      this.onerror(problem, this.#status, ERROR_NAMES[this.#status] ?? "Z_STREAM_ERROR");
      return;
    }
    this.#state[0] = stream.avail_out;
    this.#state[1] = stream.avail_in;
  }

  reset(): void {
    if (isCompressor(this.#format)) zlibDeflateReset(this.#stream);
    else zlibInflateReset(this.#stream);
    this.#status = Z_OK;
  }

  /** The caller must flush the data compressed so far first. */
  params(level: number, strategy: number): void {
    const { memLevel } = this.#settings;
    const other = new ZStream();
    zlibDeflateInit2(other, level, METHOD_DEFLATED, -15, memLevel, strategy as never);
    const from = other.state as unknown as CompressorState;
    const to = this.#stream.state as unknown as CompressorState;
    // Level 0 does not use a hash table.
    if (to.level === 0) {
      to.head.fill(0);
      to.matches = 0;
    }
    for (const name of LEVEL_FIELDS) to[name] = from[name];
  }

  close(): void {
    this.#isClosed = true;
  }

  #inflate(flush: number): void {
    const stream = this.#stream;
    const { dictionary } = this.#settings;
    this.#detect();
    this.#status = zlibInflate(stream, flush as never);
    if (this.#format !== "InflateRaw" && this.#status === Z_NEED_DICT && dictionary !== undefined) {
      const status = zlibInflateSetDictionary(stream, dictionary);
      if (status === Z_OK) this.#status = zlibInflate(stream, flush as never);
      else this.#status = status === Z_DATA_ERROR ? Z_NEED_DICT : status;
    }
    // Another member of the same archive may follow. Zeros are padding.
    while (
      this.#isGunzip &&
      this.#status === Z_STREAM_END &&
      stream.avail_in > 0 &&
      stream.input?.[stream.next_in] !== 0
    ) {
      this.reset();
      this.#status = zlibInflate(stream, flush as never);
    }
  }

  /** Detects from the first two bytes whether an `Unzip` reads gzip. */
  #detect(): void {
    const { input, next_in, avail_in } = this.#stream;
    for (let index = 0; index < avail_in && this.#idBytesSeen !== undefined; index += 1) {
      const isMark = input?.[next_in + index] === GZIP_ID[this.#idBytesSeen];
      this.#isGunzip = isMark && this.#idBytesSeen === 1;
      this.#idBytesSeen = isMark && this.#idBytesSeen === 0 ? 1 : undefined;
    }
  }

  #problem(flush: number): string | undefined {
    const status = this.#status;
    if (status === Z_OK || status === Z_BUF_ERROR) {
      if (this.#stream.avail_out === 0 || flush !== Z_FINISH) return undefined;
      this.#status = Z_BUF_ERROR;
      return "unexpected end of file";
    }
    if (status === Z_STREAM_END) return undefined;
    if (status === Z_NEED_DICT)
      return this.#settings.dictionary === undefined ? "Missing dictionary" : "Bad dictionary";
    return this.#stream.msg || "Zlib error";
  }
}
