// Brotli and Zstandard for a guest, by Node's own zlib on the process's threads: encoders of its own would take a guest a megabyte. A codec
// goes in steps, each of which gives so much at most and says whether there is more: what unpacks to gigabytes waits for its reader.
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
import { CryptoRefusal } from "./refusal.ts";

type Codec = ReturnType<typeof createBrotliCompress>;
type Params = { readonly [key: string]: number };

/** Open at one time: an encoder of Brotli takes some 20 MiB at most, a decoder as much as its data says, up to 16. */
const MAX_CODECS = 16;
/** While the guest waits, and the worker with it: 20 to 100 ms. */
const MAX_INPUT_AT_ONCE = 4 * 1024 * 1024;
const MAX_OUTPUT_AT_ONCE = 8 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;
/** What Brotli's 11 takes a MiB 2 s for, 5 does in 30 ms, and 3 % larger. */
const FAST_QUALITY = 5;
/** The best quality for so many bytes: in a thread that nothing stops, and while the worker waits. */
const BEST_QUALITY = { quality: 11, bytes: 256 * 1024, bytesAtOnce: 16 * 1024 } as const;
const GOOD_QUALITY = { quality: 9, bytesAtOnce: 256 * 1024 } as const;
/** 4 MiB: what the encoders' tables and windows take grows with them. */
const MAX_ENCODER_WINDOW_BITS = 22;
const MAX_ZSTD_LEVEL = 9;
/** RFC 8878 asks for 8 MiB. */
const MAX_ZSTD_WINDOW_BITS = 23;

const KINDS = ["brotliCompress", "brotliDecompress", "zstdCompress", "zstdDecompress"] as const;
type Kind = (typeof KINDS)[number];
const OpenSchema = z.tuple([
  z.enum(KINDS),
  z.strictObject({
    params: z.record(z.string().regex(/^\d{1,4}$/), z.int()),
    /** Of all that will come, where that is known. */
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

/** What may be stated; the others say how much memory and time a codec takes. */
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
      throw new CryptoRefusal("TypeError", `The parameter ${key} of ${kind} cannot be stated here`);
    }
  }
  const given = (key: number): number | undefined => params[String(key)];
  if (kind === "brotliCompress") {
    const best = bestQuality(size, isAtOnce);
    const stated = given(BROTLI_PARAM_QUALITY) ?? (best === BEST_QUALITY.quality ? best : FAST_QUALITY);
    return {
      ...params,
      [BROTLI_PARAM_QUALITY]: Math.min(stated, best),
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
  /** Of what this step has begun: ask again. */
  readonly isMore: boolean;
}

class SteppedCodec {
  readonly #codec: Codec;
  #isBusy = false;
  /** What was asked for has been done, but for what is to be read. */
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
    codec.on("close", () => fail(new CryptoRefusal("InvalidStateError", "This is finished already")));
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
    if (this.#isBusy) throw new CryptoRefusal("InvalidStateError", "A step is being taken already");
    this.#isBusy = true;
    try {
      this.#begin(step, bytes);
      return await this.#collect();
    } finally {
      this.#isBusy = false;
    }
  }

  /** Node tells of it only where there is much. Else a codec takes all that it is given. */
  #hasTrailing(): boolean {
    return this.#rejectsTrailing && this.#isDone && this.#codec.bytesWritten < this.#taken;
  }

  /** What had come before an error is given first; the error is the next step's. */
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
          throw new CryptoRefusal("TypeError", "There is data after the end of the compressed data");
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

/** Of one isolate. */
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

  /** @throws what `toFailure` reads */
  open(args: readonly unknown[]): number {
    const [kind, settings] = OpenSchema.parse(args);
    if (this.#open.size >= MAX_CODECS) {
      throw new CryptoRefusal("QuotaExceededError", `${MAX_CODECS} streams of Brotli and Zstandard are open already`);
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
      const message = `${kind}Sync takes ${MAX_INPUT_AT_ONCE} bytes at most here; ${kind}() takes more`;
      throw new CryptoRefusal("RangeError", message);
    }
    const params = boundedParams(kind, { ...settings, size }, true);
    const maxOutputLength = Math.min(settings.maxOutputLength ?? MAX_OUTPUT_AT_ONCE, MAX_OUTPUT_AT_ONCE);
    return AT_ONCE[kind](bytes, { params, maxOutputLength });
  }

  prepareStep(args: readonly unknown[], bytes: Uint8Array): () => Promise<Stepped> {
    const [handle, step] = StepSchema.parse(args);
    const codec = this.#open.get(handle);
    if (codec === undefined) throw new CryptoRefusal("InvalidStateError", "This is finished already");
    if (bytes.byteLength > MAX_PIECE_BYTES) {
      throw new CryptoRefusal("OperationError", "This is more than one piece may be");
    }
    return () => codec.step(step, bytes);
  }
}
