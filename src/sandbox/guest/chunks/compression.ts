// CompressionStream and DecompressionStream (WHATWG Compression): zlib, by pako, between the two ends of a TransformStream.
import {
  Z_BUF_ERROR,
  Z_DEFAULT_STRATEGY,
  Z_FINISH,
  Z_NO_FLUSH,
  Z_STREAM_END,
  ZStream,
  zlibDeflate,
  zlibDeflateInit2,
  zlibInflate,
  zlibInflateInit2,
} from "pako";
import { type ReadableStream, TransformStream, type WritableStream } from "./streams.ts";
import { bytesOf, defineInterface, requireArguments } from "./webidl.ts";

/** zlib's window bits, by which it tells the three formats apart. */
const WINDOW_BITS: ReadonlyMap<string, number> = new Map([
  ["deflate", 15],
  ["deflate-raw", -15],
  ["gzip", 31],
]);
/** zlib's own defaults. */
const LEVEL = 6;
const METHOD_DEFLATED = 8;
const MEMORY_LEVEL = 8;
const OUTPUT_BYTES = 64 * 1024;
const NOTHING = new Uint8Array(0);

type Emit = (bytes: Uint8Array) => void;
interface Codec {
  write(bytes: Uint8Array, emit: Emit): void;
  end(emit: Emit): void;
}

/** One call of zlib, with fresh room for its output. */
function step(stream: ZStream, room: Uint8Array<ArrayBuffer>, run: (stream: ZStream) => number, emit: Emit): number {
  stream.output = room;
  stream.next_out = 0;
  stream.avail_out = room.byteLength;
  const status = run(stream);
  if (stream.next_out > 0) emit(room.slice(0, stream.next_out));
  return status;
}

function feed(stream: ZStream, bytes: Uint8Array): void {
  stream.input = bytes;
  stream.next_in = 0;
  stream.avail_in = bytes.byteLength;
}

function createCompressor(windowBits: number): Codec {
  const stream = new ZStream();
  const room = new Uint8Array(OUTPUT_BYTES);
  zlibDeflateInit2(stream, LEVEL, METHOD_DEFLATED, windowBits, MEMORY_LEVEL, Z_DEFAULT_STRATEGY);
  const run = (bytes: Uint8Array, flush: typeof Z_NO_FLUSH | typeof Z_FINISH, emit: Emit): void => {
    feed(stream, bytes);
    do step(stream, room, (it) => zlibDeflate(it, flush), emit);
    while (stream.avail_out === 0);
  };
  return { write: (bytes, emit) => run(bytes, Z_NO_FLUSH, emit), end: (emit) => run(NOTHING, Z_FINISH, emit) };
}

function createDecompressor(windowBits: number): Codec {
  const stream = new ZStream();
  const room = new Uint8Array(OUTPUT_BYTES);
  zlibInflateInit2(stream, windowBits);
  let isOver = false;
  const write = (bytes: Uint8Array, emit: Emit): void => {
    feed(stream, bytes);
    while (!isOver) {
      const status = step(stream, room, (it) => zlibInflate(it, Z_NO_FLUSH), emit);
      if (status === Z_STREAM_END) isOver = true;
      else if (status === Z_BUF_ERROR) return;
      else if (status !== 0)
        throw new TypeError(`The compressed data is not valid: ${stream.msg || "it needs a dictionary"}`);
      else if (stream.avail_in === 0 && stream.avail_out > 0) return;
    }
    if (stream.avail_in > 0) throw new TypeError("There is data after the end of the compressed data");
  };
  const end = (): void => {
    if (!isOver) throw new TypeError("The compressed data ends too early");
  };
  return { write, end };
}

function createTransform(codec: Codec, what: string): TransformStream<unknown, Uint8Array> {
  return new TransformStream({
    transform: (chunk, controller) => {
      const bytes = bytesOf(chunk);
      if (bytes === undefined) throw new TypeError(`${what} expected chunks of bytes`);
      codec.write(bytes, (output) => controller.enqueue(output));
    },
    flush: (controller) => codec.end((output) => controller.enqueue(output)),
  });
}

function windowBitsOf(format: unknown, what: string): number {
  const bits = WINDOW_BITS.get(String(format));
  if (bits !== undefined) return bits;
  throw new TypeError(`${what} expected "deflate", "deflate-raw" or "gzip", got "${String(format)}"`);
}

export class CompressionStream {
  readonly #transform: TransformStream<unknown, Uint8Array>;

  constructor(format: unknown) {
    requireArguments("CompressionStream", 1, arguments.length);
    const codec = createCompressor(windowBitsOf(format, "CompressionStream"));
    this.#transform = createTransform(codec, "CompressionStream");
  }

  get readable(): ReadableStream<Uint8Array> {
    return this.#transform.readable;
  }
  get writable(): WritableStream<unknown> {
    return this.#transform.writable;
  }
}

export class DecompressionStream {
  readonly #transform: TransformStream<unknown, Uint8Array>;

  constructor(format: unknown) {
    requireArguments("DecompressionStream", 1, arguments.length);
    const codec = createDecompressor(windowBitsOf(format, "DecompressionStream"));
    this.#transform = createTransform(codec, "DecompressionStream");
  }

  get readable(): ReadableStream<Uint8Array> {
    return this.#transform.readable;
  }
  get writable(): WritableStream<unknown> {
    return this.#transform.writable;
  }
}

defineInterface("CompressionStream", CompressionStream);
defineInterface("DecompressionStream", DecompressionStream);
