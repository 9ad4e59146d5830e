// CompressionStream and DecompressionStream (WHATWG Compression): zlib, in a chunk of its own, between the two ends of a TransformStream;
// Brotli by the worker, in one piece at the end.
import { MAX_JOB_BYTES } from "../../crypto/wire.ts";
import type { runJob } from "./crypto-jobs.ts";
import { type ReadableStream, TransformStream, type WritableStream } from "./streams.ts";
import { bytesOf, defineInterface, requireArguments } from "./webidl.ts";
import type * as ZlibCodecs from "./zlib-codecs.ts";
import type { Codec, Emit } from "./zlib-codecs.ts";

// The chunk of cryptography knows how the worker is given a job; for Brotli alone is it wanted.
declare function require(name: "./crypto.ts"): { readonly runJob: typeof runJob };
declare function require(name: "./zlib-codecs.ts"): typeof ZlibCodecs;

/** zlib's window bits, by which it tells the three formats apart. */
const WINDOW_BITS: ReadonlyMap<string, number> = new Map([
  ["deflate", 15],
  ["deflate-raw", -15],
  ["gzip", 31],
]);

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
  if (bits !== undefined) {
    const { createCompressor, createDecompressor } = require("./zlib-codecs.ts");
    return compresses ? createCompressor(bits) : createDecompressor(bits);
  }
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
