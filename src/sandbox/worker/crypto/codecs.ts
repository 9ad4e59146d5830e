// Runs Brotli and Zstandard for a guest with Node's zlib on the process's threads; encoders inside the guest would take a megabyte. A codec
// works in steps. Each returns a limited amount and whether there is more, so data that expands to gigabytes waits for its reader.
import {
  type BrotliOptions,
  brotliCompressSync,
  brotliDecompressSync,
  constants,
  createBrotliCompress,
  createBrotliDecompress,
  createZstdCompress,
  createZstdDecompress,
  type ZstdOptions,
  zstdCompressSync,
  zstdDecompressSync,
} from "node:zlib";
import * as z from "zod";
import { MAX_PIECE_BYTES } from "../../protocol/crypto-messages.ts";
import { CryptoError } from "./errors.ts";

type Codec = ReturnType<typeof createBrotliCompress>;
type Params = { readonly [key: string]: number };

/** Maximum number of open codecs. A Brotli encoder takes up to 20 MiB, a decoder up to 16 MiB, as declared by its data. */
const MAX_CODECS = 16;
/** Limits of synchronous functions, which block the guest and the worker for 20 to 100 ms. */
const MAX_INPUT_AT_ONCE = 4 * 1024 * 1024;
const MAX_OUTPUT_AT_ONCE = 8 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;
/** Brotli quality for large data. For 1 MiB, quality 11 takes 2 s; 5 takes 30 ms and the result is 3 % larger. */
const FAST_QUALITY = 5;
/** Highest Brotli quality by input size: on a thread, which cannot be interrupted, and for synchronous functions. */
const BEST_QUALITY = { quality: 11, bytes: 256 * 1024, bytesAtOnce: 16 * 1024 } as const;
const GOOD_QUALITY = { quality: 9, bytesAtOnce: 256 * 1024 } as const;
/** 4 MiB. The memory of an encoder's tables grows with its window. */
const MAX_ENCODER_WINDOW_BITS = 22;
const MAX_ZSTD_LEVEL = 9;
/** 8 MiB, the minimum that RFC 8878 recommends for decoders. */
const MAX_ZSTD_WINDOW_BITS = 23;

const KINDS = ["brotliCompress", "brotliDecompress", "zstdCompress", "zstdDecompress"] as const;
type Kind = (typeof KINDS)[number];
const OpenSchema = z.tuple([
  z.enum(KINDS),
  z.strictObject({
    params: z.record(z.string().regex(/^\d{1,4}$/), z.int()),
    /** Total size of the input, if known. */
    size: z.int().min(0).nullable(),
    rejectsTrailing: z.boolean(),
    maxOutputLength: z.int().min(1).nullable(),
  }),
]);
type Settings = z.infer<typeof OpenSchema>[1];
const StepSchema = z.tuple([z.int(), z.enum(["write", "flush", "end", "more"])]);
type Step = z.infer<typeof StepSchema>[1];

const {
  BROTLI_PARAM_DISABLE_LITERAL_CONTEXT_MODELING,
  BROTLI_PARAM_LGBLOCK,
  BROTLI_PARAM_LGWIN,
  BROTLI_PARAM_MODE,
  BROTLI_PARAM_NDIRECT,
  BROTLI_PARAM_NPOSTFIX,
  BROTLI_PARAM_QUALITY,
  BROTLI_PARAM_SIZE_HINT,
  BROTLI_DECODER_PARAM_DISABLE_RING_BUFFER_REALLOCATION,
  ZSTD_c_checksumFlag,
  ZSTD_c_compressionLevel,
  ZSTD_c_contentSizeFlag,
  ZSTD_c_dictIDFlag,
  ZSTD_c_windowLog,
  ZSTD_d_windowLogMax,
} = constants;

/** Parameters that a guest may set. The others could raise the memory or time that a codec takes. */
const ALLOWED: { readonly [K in Kind]: readonly number[] } = {
  brotliCompress: [
    BROTLI_PARAM_DISABLE_LITERAL_CONTEXT_MODELING,
    BROTLI_PARAM_LGBLOCK,
    BROTLI_PARAM_LGWIN,
    BROTLI_PARAM_MODE,
    BROTLI_PARAM_NDIRECT,
    BROTLI_PARAM_NPOSTFIX,
    BROTLI_PARAM_QUALITY,
    BROTLI_PARAM_SIZE_HINT,
  ],
  brotliDecompress: [BROTLI_DECODER_PARAM_DISABLE_RING_BUFFER_REALLOCATION],
  zstdCompress: [
    ZSTD_c_checksumFlag,
    ZSTD_c_compressionLevel,
    ZSTD_c_contentSizeFlag,
    ZSTD_c_dictIDFlag,
    ZSTD_c_windowLog,
  ],
  zstdDecompress: [ZSTD_d_windowLogMax],
};

function bestQuality(size: number | null, isAtOnce: boolean): number {
  const bytes = size ?? Number.POSITIVE_INFINITY;
  if (bytes <= (isAtOnce ? BEST_QUALITY.bytesAtOnce : BEST_QUALITY.bytes)) return BEST_QUALITY.quality;
  return isAtOnce && bytes > GOOD_QUALITY.bytesAtOnce ? FAST_QUALITY : GOOD_QUALITY.quality;
}

function boundedParams(kind: Kind, { params, size }: Settings, isAtOnce: boolean): Params {
  for (const key of Object.keys(params)) {
    if (!ALLOWED[kind].includes(Number(key))) {
      throw new CryptoError("TypeError", `The parameter ${key} of ${kind} is not supported in the sandbox`);
    }
  }
  const given = (key: number): number | undefined => params[String(key)];
  if (kind === "brotliCompress") {
    const best = bestQuality(size, isAtOnce);
    const quality = given(BROTLI_PARAM_QUALITY) ?? (best === BEST_QUALITY.quality ? best : FAST_QUALITY);
    return {
      ...params,
      [BROTLI_PARAM_QUALITY]: Math.min(quality, best),
      [BROTLI_PARAM_LGWIN]: Math.min(given(BROTLI_PARAM_LGWIN) ?? MAX_ENCODER_WINDOW_BITS, MAX_ENCODER_WINDOW_BITS),
      ...(size === null ? {} : { [BROTLI_PARAM_SIZE_HINT]: size }),
    };
  }
  if (kind === "zstdCompress") {
    const window = given(ZSTD_c_windowLog);
    return {
      ...params,
      [ZSTD_c_compressionLevel]: Math.min(given(ZSTD_c_compressionLevel) ?? 3, MAX_ZSTD_LEVEL),
      ...(window === undefined ? {} : { [ZSTD_c_windowLog]: Math.min(window, MAX_ENCODER_WINDOW_BITS) }),
    };
  }
  if (kind === "brotliDecompress") return params;
  return { [ZSTD_d_windowLogMax]: Math.min(given(ZSTD_d_windowLogMax) ?? MAX_ZSTD_WINDOW_BITS, MAX_ZSTD_WINDOW_BITS) };
}

type Create = (options: BrotliOptions & ZstdOptions) => Codec;
type RunAtOnce = (bytes: Uint8Array, options: BrotliOptions & ZstdOptions) => Buffer;
const CREATE = {
  brotliCompress: createBrotliCompress,
  brotliDecompress: createBrotliDecompress,
  zstdCompress: createZstdCompress,
  zstdDecompress: createZstdDecompress,
} as unknown as { readonly [K in Kind]: Create };
const AT_ONCE: { readonly [K in Kind]: RunAtOnce } = {
  brotliCompress: brotliCompressSync,
  brotliDecompress: brotliDecompressSync,
  zstdCompress: zstdCompressSync,
  zstdDecompress: zstdDecompressSync,
};

export interface Stepped {
  readonly bytes: Uint8Array;
  /** Whether this step has more output. If so, the caller requests it with a `more` step. */
  readonly isMore: boolean;
}

class SteppedCodec {
  readonly #codec: Codec;
  #isBusy = false;
  /** Whether the current step is complete, except for output that was not read yet. */
  #isDone = true;
  #error: unknown;
  #taken = 0;
  readonly #rejectsTrailing: boolean;
  #wake = (): void => {};

  constructor(codec: Codec, rejectsTrailing: boolean) {
    this.#codec = codec;
    this.#rejectsTrailing = rejectsTrailing;
    const wake = (): void => this.#wake();
    const fail = (error: unknown): void => {
      this.#error ??= error;
      wake();
    };
    codec.on("readable", wake);
    codec.on("end", wake);
    codec.on("error", fail);
    codec.on("close", () => fail(new CryptoError("InvalidStateError", "The stream is already closed")));
  }

  destroy(): void {
    this.#codec.destroy();
  }

  #begin(step: Step, bytes: Uint8Array): void {
    if (step === "more") return;
    this.#isDone = false;
    this.#taken += bytes.byteLength;
    const done = (): void => {
      this.#isDone = true;
      this.#wake();
    };
    if (step === "write") this.#codec.write(bytes, done);
    else if (step === "flush") this.#codec.flush(done);
    else {
      this.#codec.once("end", done);
      this.#codec.end();
    }
  }

  async step(step: Step, bytes: Uint8Array): Promise<Stepped> {
    if (this.#isBusy) throw new CryptoError("InvalidStateError", "Another step of this stream is still running");
    this.#isBusy = true;
    try {
      this.#begin(step, bytes);
      return await this.#collect();
    } finally {
      this.#isBusy = false;
    }
  }

  /** Returns whether there is data after the end of the compressed data. Node reports only large trailing data by itself. */
  #hasTrailing(): boolean {
    return this.#rejectsTrailing && this.#isDone && this.#codec.bytesWritten < this.#taken;
  }

  /** Reads the output. Output before an error is returned first, and the next step throws the error. */
  async #collect(): Promise<Stepped> {
    const chunks: Buffer[] = [];
    for (let size = 0; ; ) {
      const chunk = this.#codec.read() as Buffer | null;
      if (chunk !== null) {
        chunks.push(chunk);
        size += chunk.length;
        if (size >= MAX_PIECE_BYTES) return { bytes: Buffer.concat(chunks), isMore: true };
      } else if (this.#hasTrailing()) {
        if (chunks.length === 0)
          throw new CryptoError("TypeError", "Unexpected data after the end of the compressed data");
        return { bytes: Buffer.concat(chunks), isMore: true };
      } else if (this.#isDone || this.#codec.readableEnded) return { bytes: Buffer.concat(chunks), isMore: false };
      else if (this.#error !== undefined) {
        if (chunks.length === 0) throw this.#error;
        return { bytes: Buffer.concat(chunks), isMore: true };
      } else {
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#wake = resolve;
        await promise;
      }
    }
  }
}

/** The open codecs of one isolate. */
export class Codecs {
  readonly #open = new Map<number, SteppedCodec>();
  #lastHandle = 0;

  get size(): number {
    return this.#open.size;
  }

  clear(): void {
    for (const codec of this.#open.values()) codec.destroy();
    this.#open.clear();
  }

  /** @throws {Error} any error, which the caller converts with `toFailure` */
  open(args: readonly unknown[]): number {
    const [kind, settings] = OpenSchema.parse(args);
    if (this.#open.size >= MAX_CODECS) {
      throw new CryptoError("QuotaExceededError", `${MAX_CODECS} Brotli and Zstandard streams are open already`);
    }
    const rejectGarbageAfterEnd = settings.rejectsTrailing;
    const params = boundedParams(kind, settings, false);
    this.#lastHandle += 1;
    const codec = CREATE[kind]({ params, chunkSize: CHUNK_BYTES, rejectGarbageAfterEnd } as BrotliOptions);
    this.#open.set(this.#lastHandle, new SteppedCodec(codec, settings.rejectsTrailing));
    return this.#lastHandle;
  }

  close(args: readonly unknown[]): null {
    for (const handle of z.array(z.int()).parse(args[0])) {
      this.#open.get(handle)?.destroy();
      this.#open.delete(handle);
    }
    return null;
  }

  atOnce(args: readonly unknown[], bytes: Uint8Array): Uint8Array {
    const [kind, settings] = OpenSchema.parse(args);
    const size = bytes.byteLength;
    if (size > MAX_INPUT_AT_ONCE) {
      const message = `${kind}Sync() accepts at most ${MAX_INPUT_AT_ONCE} bytes in the sandbox. Use ${kind}() for larger inputs`;
      throw new CryptoError("RangeError", message);
    }
    const params = boundedParams(kind, { ...settings, size }, true);
    const maxOutputLength = Math.min(settings.maxOutputLength ?? MAX_OUTPUT_AT_ONCE, MAX_OUTPUT_AT_ONCE);
    return AT_ONCE[kind](bytes, { params, maxOutputLength });
  }

  prepareStep(args: readonly unknown[], bytes: Uint8Array): () => Promise<Stepped> {
    const [handle, step] = StepSchema.parse(args);
    const codec = this.#open.get(handle);
    if (codec === undefined) throw new CryptoError("InvalidStateError", "The stream is already closed");
    if (bytes.byteLength > MAX_PIECE_BYTES) {
      throw new CryptoError("OperationError", `A piece must have at most ${MAX_PIECE_BYTES} bytes`);
    }
    return () => codec.step(step, bytes);
  }
}
