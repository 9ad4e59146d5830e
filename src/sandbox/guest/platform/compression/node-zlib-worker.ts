// Brotli and Zstandard of node:zlib, computed by the worker: as streams, with callbacks and synchronously.
import { Buffer } from "../buffer/node-buffer.ts";
import { checkFunction } from "../shared/node-error.ts";
import { Transform } from "../streams/node-stream.ts";
import { toBytes, tooLarge, zlibError } from "./node-zlib-data.ts";
import { type CodecKind, type CodecSettings, codecAtOnce, WorkerCodec } from "./worker-codec.ts";

interface Options {
  readonly params?: { readonly [key: string]: number | boolean };
  readonly maxOutputLength?: number;
  readonly rejectGarbageAfterEnd?: boolean;
  readonly [name: string]: unknown;
}
type Callback = (error: unknown, result?: Buffer) => void;
type Done = (error?: Error | null) => void;
declare function queueMicrotask(run: () => void): void;

function settingsOf(
  { params = {}, maxOutputLength, rejectGarbageAfterEnd }: Options,
  size: number | null,
): CodecSettings {
  const numbers = Object.entries(params).map(([key, value]) => [key, Number(value)] as const);
  return {
    params: Object.fromEntries(numbers),
    size,
    rejectsTrailing: rejectGarbageAfterEnd === true,
    maxOutputLength: maxOutputLength ?? null,
  };
}

/** Creates Node's zlib error, with the codec's own number if its message identifies one. */
function toZlibError(error: unknown): Error {
  const { message, code } = error as { readonly message: string; readonly code?: unknown };
  if (message === "unexpected end of file") return zlibError(-5, message);
  return Object.assign(new Error(message), typeof code === "string" ? { code } : {});
}

function runSync(kind: CodecKind, input: unknown, options: Options = {}): Buffer {
  const bytes = toBytes(input);
  try {
    const made = codecAtOnce(kind, settingsOf(options, bytes.length), bytes);
    return Buffer.from(made.buffer, made.byteOffset, made.byteLength);
  } catch (error) {
    if (error instanceof RangeError) throw error;
    throw toZlibError(error);
  }
}

async function runWhole(kind: CodecKind, bytes: Uint8Array, options: Options): Promise<Buffer> {
  const codec = new WorkerCodec(kind, settingsOf(options, bytes.length));
  const maxBytes = options.maxOutputLength ?? Number.POSITIVE_INFINITY;
  const parts: Uint8Array[] = [];
  let size = 0;
  const emit = (part: Uint8Array): void => {
    size += part.length;
    if (size > maxBytes) throw tooLarge(maxBytes);
    parts.push(part);
  };
  await codec.write(bytes, emit);
  await codec.end(emit);
  return Buffer.concat(parts);
}

function runLater(kind: CodecKind, input: unknown, ...rest: readonly unknown[]): void {
  const callback = rest.at(-1);
  checkFunction(callback, "callback");
  const done = callback as unknown as Callback;
  const options = (rest.length > 1 ? (rest[0] ?? {}) : {}) as Options;
  runWhole(kind, new Uint8Array(toBytes(input)), options).then(
    (result) => done(null, result),
    (error: unknown) => done(error instanceof RangeError ? error : toZlibError(error)),
  );
}

/** A stream whose decompressed data stays in the worker until it is read. */
class WorkerZlib extends Transform {
  readonly #codec: WorkerCodec;
  #size = 0;
  #wake: (() => void) | undefined;
  readonly #maxBytes: number;
  bytesWritten = 0;

  constructor(kind: CodecKind, options: Options = {}) {
    super(options);
    this.#codec = new WorkerCodec(kind, settingsOf(options, null));
    this.#maxBytes = options.maxOutputLength ?? Number.POSITIVE_INFINITY;
  }

  #run(run: (emit: (bytes: Uint8Array<ArrayBuffer>) => Promise<void>) => Promise<void>, done: Done): void {
    const emit = async (bytes: Uint8Array<ArrayBuffer>): Promise<void> => {
      if (this.destroyed) return;
      this.#size += bytes.length;
      if (this.#size > this.#maxBytes) throw tooLarge(this.#maxBytes);
      if (this.push(Buffer.from(bytes.buffer))) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    };
    run(emit).then(
      () => done(),
      (error: unknown) => done(error instanceof RangeError ? error : toZlibError(error)),
    );
  }

  override _read(size: number): void {
    const wake = this.#wake;
    this.#wake = undefined;
    if (wake === undefined) super._read(size);
    else wake();
  }
  override _transform(chunk: unknown, _encoding: unknown, done: Done): void {
    if (chunk === FLUSH) {
      this.#run((emit) => this.#codec.flush(emit), done);
      return;
    }
    const bytes = toBytes(chunk);
    this.bytesWritten += bytes.length;
    this.#run((emit) => this.#codec.write(bytes, emit), done);
  }
  override _flush(done: Done): void {
    this.#run((emit) => this.#codec.end(emit), done);
  }
  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#codec.close();
    this.#wake?.();
    done(error);
  }
  /** Flushes, so that all data written so far can be decompressed. The kind of flush is ignored. */
  flush(...args: readonly unknown[]): void {
    const callback = args.at(-1);
    this.write(FLUSH, () => {
      if (typeof callback === "function") (callback as () => void)();
    });
  }
  close(done?: () => void): void {
    this.destroy();
    if (done !== undefined) queueMicrotask(done);
  }
}
const FLUSH = Buffer.alloc(0);

/** Returns a class that can be called with and without `new`, and extended, as in Node. */
function streamClass(name: string, kind: CodecKind): unknown {
  function made(options?: Options): WorkerZlib {
    return Reflect.construct(WorkerZlib, [kind, options], new.target ?? made) as WorkerZlib;
  }
  Object.defineProperty(made, "name", { value: name });
  Object.setPrototypeOf(made, WorkerZlib);
  made.prototype = Object.create(WorkerZlib.prototype, {
    constructor: { value: made, writable: true, configurable: true },
  });
  return made;
}

export const workerFormats: { [name: string]: unknown } = {};
for (const kind of ["brotliCompress", "brotliDecompress", "zstdCompress", "zstdDecompress"] as const) {
  const name = `${kind[0]?.toUpperCase()}${kind.slice(1)}`;
  const made = streamClass(name, kind);
  workerFormats[name] = made;
  workerFormats[`create${name}`] = (options?: Options) => Reflect.construct(made as new () => unknown, [options]);
  workerFormats[kind] = (input: unknown, ...rest: unknown[]) => runLater(kind, input, ...rest);
  workerFormats[`${kind}Sync`] = (input: unknown, options?: Options) => runSync(kind, input, options);
}
