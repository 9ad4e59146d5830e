// node:stream: readable-stream, which is Node's own streams as a package, with the bridges to web streams that it lacks. Also node:readline
// over any stream.
import * as streams from "readable-stream";
import { nameClasses } from "./class-names.ts";
import { readline, readlinePromises } from "./readline.ts";
import { consumers } from "./stream-consumers.ts";
import { installWebBridges } from "./stream-web.ts";
import { addUnsupported } from "./unsupported-members.ts";

export const { Readable, Writable, Duplex, Transform, PassThrough, Stream, pipeline, finished } = streams;

nameClasses({ Readable, Writable, Duplex, Transform, PassThrough, Stream });
installWebBridges();

const stream = Stream as unknown as { readonly promises: object };
addUnsupported(stream, "stream", "use a pair of PassThrough streams", "duplexPair");

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
const web = Object.defineProperties(
  {},
  Object.fromEntries(
    WEB_CLASSES.map((name) => [
      name,
      { enumerable: true, get: () => (globalThis as unknown as { readonly [name: string]: unknown })[name] },
    ]),
  ),
);

addUnsupported(web, "stream/web", "use ReadableStream.prototype.tee()", "ReadableStreamTee");

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
