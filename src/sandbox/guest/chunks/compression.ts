// CompressionStream and DecompressionStream (WHATWG Compression): zlib, by pako, between the two ends of a TransformStream; Brotli by the
// worker, in one piece at the end.
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
import { MAX_JOB_BYTES } from "../../crypto/wire.ts";
import type { runJob } from "./crypto-jobs.ts";
import { type ReadableStream, TransformStream, type WritableStream } from "./streams.ts";
import { bytesOf, defineInterface, requireArguments } from "./webidl.ts";

// The chunk of cryptography knows how the worker is given a job; for Brotli alone is it wanted.
declare function require(name: "./crypto.ts"): { readonly runJob: typeof runJob };

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
  end(emit: Emit): void | Promise<void>;
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

/** What is written is kept until the end, and then is one job of the worker's. */
function createBrotli(method: "brotliCompress" | "brotliDecompress"): Codec {
  const parts: Uint8Array[] = [];
  let size = 0;
  const write = (bytes: Uint8Array): void => {
    size += bytes.byteLength;
    if (size > MAX_JOB_BYTES) throw new RangeError(`Brotli takes ${MAX_JOB_BYTES} bytes at most here`);
    parts.push(bytes.slice());
  };
  const end = async (emit: Emit): Promise<void> => {
    const whole = new Uint8Array(size);
    let at = 0;
    for (const part of parts.splice(0)) {
      whole.set(part, at);
      at += part.byteLength;
    }
    const { runJob } = require("./crypto.ts");
    const { buffers } = await runJob({ text: JSON.stringify({ method, args: [] }), buffers: [whole.buffer] });
    const [made] = buffers;
    if (made !== undefined && made.byteLength > 0) emit(new Uint8Array(made));
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

function createCodec(format: unknown, what: "CompressionStream" | "DecompressionStream"): Codec {
  const name = String(format);
  const compresses = what === "CompressionStream";
  if (name === "brotli") return createBrotli(compresses ? "brotliCompress" : "brotliDecompress");
  const bits = WINDOW_BITS.get(name);
  if (bits !== undefined) return compresses ? createCompressor(bits) : createDecompressor(bits);
  throw new TypeError(`${what} expected "deflate", "deflate-raw", "gzip" or "brotli", got "${name}"`);
}

export class CompressionStream {
  readonly #transform: TransformStream<unknown, Uint8Array>;

  constructor(format: unknown) {
    requireArguments("CompressionStream", 1, arguments.length);
    this.#transform = createTransform(createCodec(format, "CompressionStream"), "CompressionStream");
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
    this.#transform = createTransform(createCodec(format, "DecompressionStream"), "DecompressionStream");
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
