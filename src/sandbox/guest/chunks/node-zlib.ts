// node:zlib: deflate, gzip and raw by pako; Brotli and Zstandard by the worker (node-zlib-worker.ts). As streams, callbacks and at once.
import { Deflate, Inflate } from "pako";
import { Buffer } from "./node-buffer.ts";
import { checkFunction, invalidArgument, nodeError, outOfRange } from "./node-error.ts";
import { Transform } from "./node-stream.ts";
import { ERROR_NAMES, toBytes, zlibError } from "./node-zlib-data.ts";
import { workerFormats } from "./node-zlib-worker.ts";
import { zlibConstants } from "./zlib-constants.ts";

interface ZlibOptions {
  readonly level?: number;
  readonly memLevel?: number;
  readonly strategy?: number;
  readonly windowBits?: number;
  readonly dictionary?: Uint8Array;
  readonly chunkSize?: number;
  readonly flush?: number;
  readonly finishFlush?: number;
  readonly maxOutputLength?: number;
  readonly info?: boolean;
  readonly [name: string]: unknown;
}

/** What pako's two classes have in common. */
interface Codec {
  err: number;
  msg: string;
  ended?: boolean;
  onData: (chunk: Uint8Array) => void;
  push(data: Uint8Array, flush: number): boolean;
}

type Format = "Deflate" | "Inflate" | "Gzip" | "Gunzip" | "DeflateRaw" | "InflateRaw" | "Unzip";
type Input = string | ArrayBufferView | ArrayBuffer;
type Callback = (error: Error | null, result?: Buffer) => void;
declare function queueMicrotask(run: () => void): void;

const { Z_NO_FLUSH = 0, Z_SYNC_FLUSH = 2, Z_FULL_FLUSH = 3, Z_FINISH = 4, Z_BUF_ERROR = -5 } = zlibConstants;
const isCompressor = (format: Format): boolean => format === "Deflate" || format === "Gzip" || format === "DeflateRaw";

function checkRange(options: ZlibOptions, name: string, least: number, most: number): void {
  const value = options[name];
  if (value === undefined) return;
  if (typeof value !== "number") throw invalidArgument(`options.${name}`, "of type number", value);
  if (!(value >= least && value <= most)) throw outOfRange(`options.${name}`, `>= ${least} and <= ${most}`, value);
}

function makeCodec(format: Format, options: ZlibOptions): Codec {
  checkRange(options, "level", -1, 9);
  checkRange(options, "memLevel", 1, 9);
  checkRange(options, "strategy", 0, 4);
  checkRange(options, "windowBits", isCompressor(format) ? 8 : 0, 15);
  checkRange(options, "chunkSize", 64, Number.POSITIVE_INFINITY);
  const { level, memLevel, strategy, windowBits = 15, dictionary, chunkSize = 16_384 } = options;
  const given = Object.fromEntries(
    Object.entries({ level, memLevel, strategy, dictionary, chunkSize }).filter(([, value]) => value !== undefined),
  );
  if (isCompressor(format)) {
    const wrapper = { raw: format === "DeflateRaw", gzip: format === "Gzip" };
    return new Deflate({ ...given, ...wrapper, windowBits: Math.max(windowBits, 9) }) as unknown as Codec;
  }
  // pako finds out by itself what an undecorated window size stands for; zlib's own offsets say it.
  const offset = format === "Gunzip" ? 16 : format === "Unzip" ? 32 : 0;
  const bits = format === "InflateRaw" ? windowBits || 15 : (windowBits || 15) + offset;
  return new Inflate({ ...given, raw: format === "InflateRaw", windowBits: bits }) as unknown as Codec;
}

/** One run of a codec: what goes in, and what has come out. */
class Run {
  readonly #codec: Codec;
  readonly #decompresses: boolean;
  readonly #most: number;
  #chunks: Uint8Array[] = [];
  #size = 0;
  bytesWritten = 0;

  constructor(format: Format, options: ZlibOptions) {
    this.#codec = makeCodec(format, options);
    this.#decompresses = !isCompressor(format);
    this.#most = options.maxOutputLength ?? Number.POSITIVE_INFINITY;
    this.#codec.onData = (chunk) => {
      this.#size += chunk.length;
      if (this.#size > this.#most) {
        throw nodeError(RangeError, "ERR_BUFFER_TOO_LARGE", `Cannot create a Buffer larger than ${this.#most} bytes`);
      }
      this.#chunks.push(chunk);
    };
  }

  push(bytes: Uint8Array, flush: number): Buffer {
    this.bytesWritten += bytes.length;
    // After the end of the data zlib ignores what follows. What has been unpacked is not kept until there is more.
    if (!this.#decompresses) this.#step(bytes, flush);
    else if (!this.#codec.ended) this.#step(bytes, Math.max(flush, Z_SYNC_FLUSH));
    return this.#take();
  }

  finish(flush: number): Buffer {
    if (!(this.#decompresses && this.#codec.ended)) this.#step(new Uint8Array(0), flush);
    return this.#take();
  }

  #step(bytes: Uint8Array, flush: number): void {
    this.#codec.push(bytes, flush);
    const { err } = this.#codec;
    const isUnfinished = err === Z_BUF_ERROR && !(this.#decompresses && flush === Z_FINISH);
    if (err !== 0 && err !== 1 && !isUnfinished) this.#fail();
  }

  #fail(): never {
    const { err, msg } = this.#codec;
    if (err === Z_BUF_ERROR) throw zlibError(err, "unexpected end of file");
    throw zlibError(err, msg);
  }

  #take(): Buffer {
    const chunks = this.#chunks;
    this.#chunks = [];
    return Buffer.concat(chunks);
  }
}

function runSync(format: Format, input: Input, options: ZlibOptions = {}): Buffer {
  const run = new Run(format, options);
  const bytes = toBytes(input);
  const head = run.push(bytes, Z_NO_FLUSH);
  const tail = run.finish(options.finishFlush ?? Z_FINISH);
  return tail.length === 0 ? head : Buffer.concat([head, tail]);
}

function runLater(format: Format, input: Input, ...rest: readonly unknown[]): void {
  const callback = rest.at(-1);
  checkFunction(callback, "callback");
  const done = callback as unknown as Callback;
  const options = (rest.length > 1 ? rest[0] : undefined) as ZlibOptions | undefined;
  const bytes = toBytes(input);
  queueMicrotask(() => {
    let result: Buffer;
    try {
      result = runSync(format, bytes, options);
    } catch (error) {
      done(error as Error);
      return;
    }
    done(null, result);
  });
}

class ZlibStream extends Transform {
  #run: Run;
  readonly #format: Format;
  readonly #options: ZlibOptions;
  constructor(format: Format, options: ZlibOptions = {}) {
    super(options);
    this.#format = format;
    this.#options = options;
    this.#run = new Run(format, options);
  }
  get bytesWritten(): number {
    return this.#run.bytesWritten;
  }
  override _transform(chunk: unknown, _encoding: unknown, done: (error?: Error | null, data?: unknown) => void): void {
    this.#step(() => this.#run.push(toBytes(chunk), this.#options.flush ?? Z_NO_FLUSH), done);
  }
  override _flush(done: (error?: Error | null, data?: unknown) => void): void {
    this.#step(() => this.#run.finish(this.#options.finishFlush ?? Z_FINISH), done);
  }
  flush(...args: readonly unknown[]): void {
    const callback = args.at(-1);
    const kind = typeof args[0] === "number" ? args[0] : isCompressor(this.#format) ? Z_FULL_FLUSH : Z_SYNC_FLUSH;
    this.#step(
      () => this.#run.push(new Uint8Array(0), kind),
      (error, data) => {
        if (error) this.destroy(error);
        else if (data !== undefined) this.push(data);
        if (typeof callback === "function") queueMicrotask(callback as () => void);
      },
    );
  }
  params(_level: number, _strategy: number, done?: () => void): void {
    if (done !== undefined) queueMicrotask(done);
  }
  reset(): void {
    this.#run = new Run(this.#format, this.#options);
  }
  close(done?: () => void): void {
    this.destroy();
    if (done !== undefined) queueMicrotask(done);
  }
  #step(make: () => Buffer, done: (error?: Error | null, data?: unknown) => void): void {
    let data: Buffer;
    try {
      data = make();
    } catch (error) {
      done(error as Error);
      return;
    }
    if (data.length > 0) done(null, data);
    else done();
  }
}

/** Called with and without `new`, and extended, as Node's are. */
function streamClass(format: Format): unknown {
  function made(options?: ZlibOptions): ZlibStream {
    return Reflect.construct(ZlibStream, [format, options], new.target ?? made) as ZlibStream;
  }
  Object.defineProperty(made, "name", { value: format });
  Object.setPrototypeOf(made, ZlibStream);
  made.prototype = Object.create(ZlibStream.prototype, {
    constructor: { value: made, writable: true, configurable: true },
  });
  return made;
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

function crc32(data: Input, start = 0): number {
  let crc = ~start;
  for (const byte of toBytes(data)) crc = (CRC_TABLE[(crc ^ byte) & 0xff] as number) ^ (crc >>> 8);
  return ~crc >>> 0;
}

const FORMATS: readonly Format[] = ["Deflate", "Inflate", "Gzip", "Gunzip", "DeflateRaw", "InflateRaw", "Unzip"];
const zlib: { [name: string]: unknown } = {
  crc32,
  constants: zlibConstants,
  codes: {
    Z_OK: 0,
    Z_STREAM_END: 1,
    ...Object.fromEntries(Object.entries(ERROR_NAMES).map(([errno, name]) => [name, Number(errno)])),
  },
  ...Object.fromEntries(Object.entries(zlibConstants).filter(([name]) => name.startsWith("Z_"))),
};
for (const format of FORMATS) {
  const name = format[0]?.toLowerCase() + format.slice(1);
  zlib[format] = streamClass(format);
  zlib[`create${format}`] = (options?: ZlibOptions) => Reflect.construct(zlib[format] as new () => unknown, [options]);
  zlib[name] = (input: Input, ...rest: unknown[]) => runLater(format, input, ...rest);
  zlib[`${name}Sync`] = (input: Input, options?: ZlibOptions) => runSync(format, input, options);
}
Object.assign(zlib, workerFormats);

export const builtins = { zlib };
