// CompressionStream and DecompressionStream (WHATWG Compression): a TransformStream around zlib, which is a platform module of its own. The
// worker runs Brotli step by step.

import { bytesOf, defineInterface, requireArguments } from "../shared/webidl.ts";
import { type ReadableStream, TransformStream, type WritableStream } from "../streams/streams.ts";
import type * as WorkerCodecs from "./worker-codec.ts";
import type * as ZlibCodecs from "./zlib-codecs.ts";
import type { Codec } from "./zlib-codecs.ts";

declare function require(name: "./worker-codec.ts"): typeof WorkerCodecs;
declare function require(name: "./zlib-codecs.ts"): typeof ZlibCodecs;

/** Window bits that select one of zlib's three formats. */
const WINDOW_BITS: ReadonlyMap<string, number> = new Map([
  ["deflate", 15],
  ["deflate-raw", -15],
  ["gzip", 31],
]);

function createBrotli(kind: "brotliCompress" | "brotliDecompress"): Codec {
  const { WorkerCodec } = require("./worker-codec.ts");
  const settings = { params: {}, size: null, rejectsTrailing: true, maxOutputLength: null };
  let codec: WorkerCodecs.WorkerCodec | undefined;
  const open = (): WorkerCodecs.WorkerCodec => {
    codec ??= new WorkerCodec(kind, settings);
    return codec;
  };
  const asTypeError = (error: unknown): never => {
    throw new TypeError("The compressed data is not valid, ends too early, or goes on after its end", { cause: error });
  };
  return {
    write: (bytes, emit) => open().write(bytes, emit).catch(asTypeError),
    end: (emit) => open().end(emit).catch(asTypeError),
    close: () => codec?.close(),
  };
}

function createTransform(codec: Codec, what: string): TransformStream<unknown, Uint8Array> {
  return new TransformStream({
    transform: (chunk, controller) => {
      const bytes = bytesOf(chunk);
      if (bytes === undefined) throw new TypeError(`${what} expected chunks of bytes`);
      return codec.write(bytes, (output) => controller.enqueue(output));
    },
    flush: (controller) => codec.end((output) => controller.enqueue(output)),
    cancel: () => codec.close?.(),
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
