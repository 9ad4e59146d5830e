// The stream class behind deflate, gzip and raw of node:zlib. Its constructor is a plain function and its fields are Node's, because
// packages call it on their own objects (`zlib.Inflate.call(this, options)`) and read those fields.
import { Buffer } from "../buffer/node-buffer.ts";
import { finished, Transform } from "../streams/node-stream.ts";
import { toBytes, tooLarge, trailingJunk } from "./node-zlib-data.ts";
import { zlibConstants } from "./zlib-constants.ts";
import { type Format, MODES, ZlibHandle } from "./zlib-handle.ts";
import { readNumber, readSettings, type ZlibOptions } from "./zlib-options.ts";

declare function queueMicrotask(run: () => void): void;

type Done = (error?: Error | null, data?: unknown) => void;

/** The chunk that is being processed. */
interface Work {
  readonly chunk: Uint8Array;
  readonly flush: number;
  readonly done: Done;
  offset: number;
  left: number;
}

export interface ZlibStream extends InstanceType<typeof Transform> {
  bytesWritten: number;
  _handle: ZlibHandle | null;
  _writeState: Uint32Array;
  _outBuffer: Buffer;
  _outOffset: number;
  _chunkSize: number;
  _defaultFlushFlag: number;
  _finishFlushFlag: number;
  _defaultFullFlushFlag: number;
  _info: boolean | undefined;
  _maxOutputLength: number;
  _rejectGarbageAfterEnd: boolean;
  _level: number;
  _strategy: number;
  _mode: number;
  readonly destroyed: boolean;
  readonly writableEnded: boolean;
  readonly writableFinished: boolean;
  readonly writableLength: number;
  [FAILURE]: Error | undefined;
  _processChunk(chunk: Uint8Array, flush: number, done?: Done): Buffer | undefined;
  flush(...args: readonly unknown[]): void;
}

const FAILURE = Symbol("failure");
const FLUSH = Symbol("flush");

const {
  Z_NO_FLUSH = 0,
  Z_SYNC_FLUSH = 2,
  Z_FULL_FLUSH = 3,
  Z_FINISH = 4,
  Z_BLOCK = 5,
  Z_DEFAULT_CHUNK = 16_384,
} = zlibConstants;
/** Kinds of flush, from the weakest to the strongest. */
const FLUSH_ORDER = [0, 5, 1, 2, 3, 4];
const strongest = (one: number, other: number): number =>
  FLUSH_ORDER.indexOf(one) > FLUSH_ORDER.indexOf(other) ? one : other;

const TransformFunction = Transform as unknown as (this: object, options: object) => void;

/** Initializes `stream` for a format. */
export function initZlibStream(stream: ZlibStream, given: ZlibOptions | null | undefined, format: Format): void {
  const options = given ?? {};
  const settings = readSettings(options, format);
  const chunkSize = readNumber(options, "chunkSize", [64, Number.POSITIVE_INFINITY, Z_DEFAULT_CHUNK]);
  const flush = readNumber(options, "flush", [Z_NO_FLUSH, Z_BLOCK, Z_NO_FLUSH]);
  const finishFlush = readNumber(options, "finishFlush", [Z_NO_FLUSH, Z_BLOCK, Z_FINISH]);
  const max = Number.MAX_SAFE_INTEGER;
  const maxOutputLength = readNumber(options, "maxOutputLength", [1, max, max]);
  const bytesOnly = { encoding: null, objectMode: false, writableObjectMode: false };
  Reflect.apply(TransformFunction, stream, [{ autoDestroy: true, ...options, ...bytesOnly }]);
  const state = new Uint32Array(2);
  const handle = new ZlibHandle(format, settings, state);
  handle.onerror = (message, errno, code) => {
    const error = Object.assign(new Error(message), { errno, code });
    closeHandle(stream);
    stream.destroy(error);
    stream[FAILURE] = error;
  };
  Object.assign(stream, {
    bytesWritten: 0,
    _writeState: state,
    _handle: handle,
    _outBuffer: Buffer.allocUnsafe(chunkSize),
    _outOffset: 0,
    _chunkSize: chunkSize,
    _defaultFlushFlag: flush,
    _finishFlushFlag: finishFlush,
    _defaultFullFlushFlag: Z_FULL_FLUSH,
    _info: options.info,
    _maxOutputLength: maxOutputLength,
    _rejectGarbageAfterEnd: options.rejectGarbageAfterEnd === true,
    _level: settings.level,
    _strategy: settings.strategy,
    _mode: MODES[format],
  });
}

function closeHandle(stream: ZlibStream): void {
  stream._handle?.close();
  stream._handle = null;
}

/** Returns the output of the last step, and frees space for the next. */
function takeOutput(stream: ZlibStream, room: number): Buffer | undefined {
  const [roomLeft = 0] = stream._writeState;
  const start = stream._outOffset;
  const end = start + room - roomLeft;
  const output = end > start ? stream._outBuffer.subarray(start, end) : undefined;
  stream._outOffset = end;
  if (roomLeft === 0 || end >= stream._chunkSize) {
    stream._outOffset = 0;
    stream._outBuffer = Buffer.allocUnsafe(stream._chunkSize);
  }
  return output as Buffer | undefined;
}

/** Runs one step of the codec. Returns its output and whether the output was full, or undefined if it failed. */
function step(
  stream: ZlibStream,
  work: Work,
): { readonly output: Buffer | undefined; readonly isFull: boolean } | undefined {
  const handle = stream._handle;
  if (handle === null) throw new Error("zlib binding closed");
  const room = stream._chunkSize - stream._outOffset;
  handle.writeSync(work.flush, work.chunk, work.offset, work.left, stream._outBuffer, stream._outOffset, room);
  if (stream[FAILURE] !== undefined) return undefined;
  const [roomLeft = 0, left = 0] = stream._writeState;
  const used = work.left - left;
  stream.bytesWritten += used;
  work.offset += used;
  work.left = left;
  return { output: takeOutput(stream, room), isFull: roomLeft === 0 };
}

/** Processes a chunk step by step, and pauses while the reader has enough data. */
function advance(stream: ZlibStream, work: Work): void {
  // A stream may be closed while a write is pending.
  if (stream.destroyed || stream._handle === null) {
    work.done();
    return;
  }
  const made = step(stream, work);
  // The error has destroyed the stream.
  if (made === undefined) return;
  const hasRoom = made.output === undefined || stream.push(made.output);
  const next = (): void => queueMicrotask(() => advance(stream, work));
  if (stream.destroyed) work.done();
  else if (made.isFull && hasRoom) next();
  else if (made.isFull) continueOnRead(stream, next);
  else finishChunk(stream, work);
}

function continueOnRead(stream: ZlibStream, next: () => void): void {
  const { _read: read } = stream;
  stream._read = (size) => {
    stream._read = read;
    next();
    stream._read(size);
  };
}

/** Ignores bytes after the end of the compressed data unless the options forbid them. */
function finishChunk(stream: ZlibStream, work: Work): void {
  if (work.left > 0 && stream._rejectGarbageAfterEnd) {
    stream.destroy(trailingJunk());
    return;
  }
  if (work.left > 0) stream.push(null);
  work.done();
}

function processAtOnce(stream: ZlibStream, work: Work): Buffer {
  const parts: Buffer[] = [];
  let size = 0;
  stream.on("error", () => {});
  for (let isFull = true; isFull; ) {
    const made = step(stream, work);
    if (made === undefined) throw stream[FAILURE];
    if (made.output !== undefined) parts.push(made.output);
    size += made.output?.length ?? 0;
    if (size > stream._maxOutputLength) {
      closeHandle(stream);
      throw tooLarge(stream._maxOutputLength);
    }
    isFull = made.isFull;
  }
  if (work.left > 0 && stream._rejectGarbageAfterEnd) throw trailingJunk();
  closeHandle(stream);
  return Buffer.concat(parts);
}

const flushChunk = (kind: number): Buffer => Object.assign(Buffer.alloc(0), { [FLUSH]: kind });

const methods = {
  reset(this: ZlibStream): void {
    if (this._handle === null) throw new Error("zlib binding closed");
    this._handle.reset();
  },
  _transform(this: ZlibStream, given: unknown, _encoding: string, done: Done): void {
    const chunk = toBytes(given);
    let flush = (given as { readonly [FLUSH]?: number })[FLUSH] ?? this._defaultFlushFlag;
    const isLast = this.writableEnded && this.writableLength === chunk.byteLength;
    if (isLast) flush = strongest(flush, this._finishFlushFlag);
    this._processChunk(chunk, flush, done);
  },
  _flush(this: ZlibStream, done: Done): void {
    this._transform(Buffer.alloc(0), "", done);
  },
  _processChunk(this: ZlibStream, chunk: Uint8Array, flush: number, done?: Done): Buffer | undefined {
    const work = { chunk, flush, offset: 0, left: chunk.byteLength };
    if (typeof done !== "function") return processAtOnce(this, { ...work, done: () => {} });
    queueMicrotask(() => advance(this, { ...work, done }));
    return undefined;
  },
  flush(this: ZlibStream, ...args: readonly unknown[]): void {
    const callback = args.find((one) => typeof one === "function") as (() => void) | undefined;
    const kind = typeof args[0] === "number" ? args[0] : this._defaultFullFlushFlag;
    if (this.writableFinished) {
      if (callback !== undefined) queueMicrotask(callback);
    } else if (this.writableEnded) {
      if (callback !== undefined) this.once("end", callback);
    } else {
      this.write(flushChunk(kind), callback);
    }
  },
  params(this: ZlibStream, level: number, strategy: number, done?: () => void): void {
    readNumber({ level }, "level", [-1, 9, -1]);
    readNumber({ strategy }, "strategy", [0, 4, 0]);
    const change = (): void => {
      this._handle?.params(level, strategy);
      this._level = level;
      this._strategy = strategy;
      done?.();
    };
    if (this._level !== level || this._strategy !== strategy) this.flush(Z_SYNC_FLUSH, change);
    else if (done !== undefined) queueMicrotask(done);
  },
  close(this: ZlibStream, done?: (error?: Error) => void): void {
    if (done !== undefined) (finished as (stream: object, done: unknown) => void)(this, done);
    this.destroy();
  },
  _destroy(this: ZlibStream, error: Error | null, done: Done): void {
    closeHandle(this);
    done(error);
  },
};

/** Base prototype of all formats. */
export const zlibPrototype: object = Object.create(Transform.prototype as object, {
  ...Object.getOwnPropertyDescriptors(methods),
  _closed: {
    configurable: true,
    get(this: ZlibStream) {
      return this._handle === null;
    },
  },
});
