// node:stream: readable-stream, which is Node's own streams as a package, with the bridges to web streams that it lacks. Also node:readline
// over any stream.
import * as streams from "readable-stream";
import { Buffer } from "../buffer/node-buffer.ts";
import { nameClasses } from "../shared/class-names.ts";
import { globalMember } from "../shared/global-member.ts";
import { readline, readlinePromises } from "./readline.ts";
import { installWebBridges } from "./stream-web.ts";

export const { Readable, Writable, Duplex, Transform, PassThrough, Stream, pipeline, finished } = streams;

nameClasses({ Readable, Writable, Duplex, Transform, PassThrough, Stream });
installWebBridges();

const stream = Stream as unknown as {
  readonly promises: object;
  setDefaultHighWaterMark(objectMode: boolean, value: number): void;
};
// Node's since version 22. The package has that of Node 18.
stream.setDefaultHighWaterMark(false, 64 * 1024);

type Done = (error?: Error | null) => void;
type DuplexStream = InstanceType<typeof Duplex>;

/** Returns two streams: what is written to one can be read from the other, which takes the next chunk when this one was read. */
function duplexPair(options: object = {}): readonly DuplexStream[] {
  const waiting: (Done | undefined)[] = [];
  const ends: DuplexStream[] = [0, 1].map((index) => {
    const other = 1 - index;
    return new Duplex({
      ...options,
      read() {
        const done = waiting[index];
        waiting[index] = undefined;
        done?.();
      },
      write(chunk: Uint8Array, _encoding: string, done: Done) {
        if (chunk.length === 0) return done();
        waiting[other] = done;
        ends[other]?.push(chunk);
      },
      final(done: Done) {
        ends[other]?.on("end", () => done());
        ends[other]?.push(null);
      },
    });
  });
  return ends;
}
Object.assign(stream, { duplexPair });

const WEB_CLASSES = [
  "ReadableStream",
  "ReadableStreamDefaultReader",
  "ReadableStreamBYOBReader",
  "ReadableStreamBYOBRequest",
  "ReadableByteStreamController",
  "ReadableStreamDefaultController",
  "TransformStream",
  "TransformStreamDefaultController",
  "WritableStream",
  "WritableStreamDefaultController",
  "WritableStreamDefaultWriter",
  "ByteLengthQueuingStrategy",
  "CountQueuingStrategy",
  "TextEncoderStream",
  "TextDecoderStream",
  "CompressionStream",
  "DecompressionStream",
];

/** The web globals, looked up at each access. */
const web = Object.defineProperties({}, Object.fromEntries(WEB_CLASSES.map((name) => [name, globalMember(name)])));

interface WebStream {
  tee(): [WebStream, WebStream];
  pipeThrough(pair: unknown): WebStream;
}
interface ClonerClasses {
  readonly TransformStream: new (transformer: object) => unknown;
  structuredClone(value: unknown): unknown;
}

/** Node's function, which the fetch of undici uses. @param isCloned whether the second stream gets copies of the chunks */
function readableStreamTee(stream: WebStream, isCloned: unknown): [WebStream, WebStream] {
  const [first, second] = stream.tee();
  if (isCloned !== true) return [first, second];
  const { TransformStream, structuredClone } = globalThis as unknown as ClonerClasses;
  const transform = (chunk: unknown, controller: { enqueue(chunk: unknown): void }): void =>
    controller.enqueue(structuredClone(chunk));
  return [first, second.pipeThrough(new TransformStream({ transform }))];
}
Object.assign(web, { ReadableStreamTee: readableStreamTee });

type Chunks = AsyncIterable<unknown> | Iterable<unknown>;

async function buffer(stream: Chunks): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream)
    chunks.push(typeof chunk === "string" ? Buffer.from(chunk) : Buffer.from(chunk as Uint8Array));
  return Buffer.concat(chunks);
}

async function text(stream: Chunks): Promise<string> {
  return (await buffer(stream)).toString("utf8").replace(/^\ufeff/, "");
}

/** node:stream/consumers: functions that read a whole stream into one value. */
const consumers = {
  buffer,
  text,
  bytes: async (stream: Chunks): Promise<Uint8Array> => new Uint8Array(await buffer(stream)),
  arrayBuffer: async (stream: Chunks): Promise<ArrayBuffer> => new Uint8Array(await buffer(stream)).buffer,
  json: async (stream: Chunks): Promise<unknown> => JSON.parse(await text(stream)),
  blob: async (stream: Chunks): Promise<unknown> => {
    const { Blob } = globalThis as unknown as { readonly Blob: new (parts: unknown[]) => unknown };
    return new Blob([await buffer(stream)]);
  },
};

export const builtins = {
  stream,
  "stream/promises": stream.promises,
  "stream/consumers": consumers,
  "stream/web": web,
  _stream_duplex: Duplex,
  _stream_passthrough: PassThrough,
  _stream_readable: Readable,
  _stream_transform: Transform,
  _stream_writable: Writable,
  readline,
  "readline/promises": readlinePromises,
};
