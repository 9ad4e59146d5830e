// Converts between Node's streams and web streams, which readable-stream does not support.
import { Duplex, Readable, Writable } from "readable-stream";

interface Reader {
  read(): Promise<{ readonly done: boolean; readonly value?: unknown }>;
  cancel(reason?: unknown): Promise<void>;
}
interface Writer {
  readonly ready: Promise<void>;
  write(chunk: unknown): Promise<void>;
  close(): Promise<void>;
  abort(reason?: unknown): Promise<void>;
}
interface WebReadable {
  getReader(): Reader;
}
interface WebWritable {
  getWriter(): Writer;
}
interface WebPair {
  readonly readable: WebReadable;
  readonly writable: WebWritable;
}
type Done = (error?: Error | null) => void;
type Options = { readonly [name: string]: unknown };
interface Controller {
  readonly desiredSize: number | null;
  enqueue(chunk: unknown): void;
  close(): void;
  error(reason: unknown): void;
}
interface WebClasses {
  ReadableStream: new (source: object, strategy?: object) => WebReadable;
  WritableStream: new (sink: object) => WebWritable;
}
const web = globalThis as unknown as WebClasses;

function pull(reader: Reader, stream: { push(chunk: unknown): boolean; destroy(error: Error): unknown }): void {
  reader.read().then(
    ({ done, value }) => void stream.push(done ? null : value),
    (error: Error) => void stream.destroy(error),
  );
}

const settle = (promise: Promise<unknown>, done: Done): void => {
  promise.then(
    () => done(),
    (error: Error) => done(error),
  );
};

const readableFromWeb = (source: WebReadable, options: Options = {}): Readable => {
  const reader = source.getReader();
  return new Readable({
    ...options,
    read(this: Readable) {
      pull(reader, this);
    },
    destroy(error: Error | null, done: Done) {
      settle(reader.cancel(error ?? undefined), () => done(error));
    },
  });
};

const writableFromWeb = (sink: WebWritable, options: Options = {}): Writable => {
  const writer = sink.getWriter();
  return new Writable({ ...options, ...sinkMethods(writer) });
};

function sinkMethods(writer: Writer): object {
  return {
    write(chunk: unknown, _encoding: string, done: Done) {
      settle(
        writer.ready.then(() => writer.write(chunk)),
        done,
      );
    },
    final(done: Done) {
      settle(writer.close(), done);
    },
    destroy(error: Error | null, done: Done) {
      if (error === null) done(null);
      else settle(writer.abort(error), () => done(error));
    },
  };
}

const duplexFromWeb = ({ readable, writable }: WebPair, options: Options = {}): Duplex => {
  const reader = readable.getReader();
  return new Duplex({
    ...options,
    ...sinkMethods(writable.getWriter()),
    read(this: Duplex) {
      pull(reader, this);
    },
  });
};

/** Converts a Buffer to a plain Uint8Array. */
const toWebChunk = (chunk: unknown): unknown =>
  chunk instanceof Uint8Array ? new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength) : chunk;

function readableToWeb(stream: Readable): WebReadable {
  return new web.ReadableStream({
    start(controller: Controller) {
      stream.pause();
      let ended = false;
      stream.on("data", (chunk: unknown) => {
        controller.enqueue(toWebChunk(chunk));
        if ((controller.desiredSize ?? 0) <= 0) stream.pause();
      });
      stream.on("end", () => {
        ended = true;
        controller.close();
      });
      stream.on("error", (error: unknown) => controller.error(error));
      stream.on("close", () => {
        if (!ended && !stream.errored) controller.error(new Error("Premature close"));
      });
      stream.pause();
    },
    pull() {
      stream.resume();
    },
    cancel(reason: Error | undefined) {
      stream.destroy(reason);
    },
  });
}

function writableToWeb(stream: Writable): WebWritable {
  return new web.WritableStream({
    start(controller: Controller) {
      stream.on("error", (error: unknown) => controller.error(error));
    },
    write: (chunk: unknown) =>
      new Promise<void>((resolve, reject) => {
        stream.write(chunk, (error?: Error | null) => (error ? reject(error) : resolve()));
      }),
    close: () => new Promise<void>((resolve) => void stream.end(resolve)),
    abort: (reason: Error) => void stream.destroy(reason),
  });
}

export function installWebBridges(): void {
  const define = (target: unknown, values: { readonly [name: string]: unknown }): void => {
    for (const [name, value] of Object.entries(values)) {
      Object.defineProperty(target as object, name, { value, writable: true, enumerable: true, configurable: true });
    }
  };
  define(Readable, { fromWeb: readableFromWeb, toWeb: readableToWeb });
  define(Writable, { fromWeb: writableFromWeb, toWeb: writableToWeb });
  define(Duplex, {
    fromWeb: duplexFromWeb,
    toWeb: (stream: Duplex) => ({
      readable: readableToWeb(stream),
      writable: writableToWeb(stream as unknown as Writable),
    }),
  });
}
