// node:zlib: deflate, gzip and raw with pako (zlib-stream.ts), Brotli and Zstandard in the worker (node-zlib-worker.ts). Each as streams,
// with callbacks and synchronously.
import type { Buffer } from "../buffer/node-buffer.ts";
import { constructible } from "../shared/callable-classes.ts";
import { checkFunction } from "../shared/node-error.ts";
import { addUnsupported } from "../shared/unsupported-members.ts";
import { Transform } from "../streams/node-stream.ts";
import { ERROR_NAMES, toBytes } from "./node-zlib-data.ts";
import { workerFormats } from "./node-zlib-worker.ts";
import { zlibConstants } from "./zlib-constants.ts";
import { type Format, MODES } from "./zlib-handle.ts";
import type { ZlibOptions } from "./zlib-options.ts";
import { initZlibStream, type ZlibStream, zlibPrototype } from "./zlib-stream.ts";

type Input = string | ArrayBufferView | ArrayBuffer;
type Result = Buffer | { readonly buffer: Buffer; readonly engine: ZlibStream };
type Callback = (error: Error | null, result?: Result) => void;
type StreamClass = new (options?: ZlibOptions | null) => ZlibStream;
declare function queueMicrotask(run: () => void): void;

/** Returns a class that can be called with and without `new`, applied to the caller's own object, and extended, as in Node. */
function streamClass(format: Format): StreamClass {
  function made(this: ZlibStream | undefined, options?: ZlibOptions): ZlibStream | undefined {
    if (!(this instanceof made)) return Reflect.construct(made, [options]) as ZlibStream;
    initZlibStream(this, options, format);
    return undefined;
  }
  Object.defineProperty(made, "name", { value: format });
  Object.setPrototypeOf(made, Transform);
  made.prototype = Object.create(zlibPrototype, {
    constructor: { value: made, writable: true, configurable: true },
  });
  return made as unknown as StreamClass;
}

function runAtOnce(stream: ZlibStream, bytes: Uint8Array): Result {
  const buffer = stream._processChunk(bytes, stream._finishFlushFlag) as Buffer;
  return stream._info === true ? { buffer, engine: stream } : buffer;
}

function runLater(Class: StreamClass, input: Input, ...rest: readonly unknown[]): void {
  const callback = rest.at(-1);
  checkFunction(callback, "callback");
  const done = callback as unknown as Callback;
  const stream = new Class((rest.length > 1 ? rest[0] : undefined) as ZlibOptions | undefined);
  const bytes = toBytes(input);
  queueMicrotask(() => {
    let result: Result;
    try {
      result = runAtOnce(stream, bytes);
    } catch (error) {
      done(error as Error);
      return;
    }
    done(null, result);
  });
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

const zlib: { [name: string]: unknown } = {
  crc32,
  constants: zlibConstants,
  codes: {
    Z_OK: 0,
    Z_STREAM_END: 1,
    ...Object.fromEntries(Object.entries(ERROR_NAMES).map(([errno, name]) => [name, Number(errno)])),
  },
  ...Object.fromEntries(Object.entries(zlibConstants).filter(([name]) => !name.startsWith("BROTLI_"))),
};
for (const format of Object.keys(MODES) as Format[]) {
  const name = format[0]?.toLowerCase() + format.slice(1);
  const Class = streamClass(format);
  zlib[format] = Class;
  zlib[`create${format}`] = constructible(`create${format}`, (options?: ZlibOptions) => new Class(options));
  zlib[name] = (input: Input, ...rest: unknown[]) => runLater(Class, input, ...rest);
  zlib[`${name}Sync`] = (input: Input, options?: ZlibOptions) => runAtOnce(new Class(options), toBytes(input));
}
Object.assign(zlib, workerFormats);
addUnsupported(
  zlib,
  "zlib",
  "use a package for ZIP archives, such as fflate",
  "ZipBuffer ZipEntry ZipFile createZipArchive createZipArchiveSync getMaxZipContentSize setMaxZipContentSize zipFiles",
);

export const builtins = { zlib };
