// zlib for CompressionStream and DecompressionStream, with pako. pako builds its tables while it loads, so this module is evaluated when
// the first stream is created.
import {
  Z_BUF_ERROR,
  Z_DEFAULT_STRATEGY,
  Z_FINISH,
  Z_NO_FLUSH,
  Z_STREAM_END,
  ZStream,
  zlibDeflate,
  zlibDeflateInit2,
  zlibInflate,
  zlibInflateInit2,
} from "pako";

/** The defaults of zlib. */
const LEVEL = 6;
const METHOD_DEFLATED = 8;
const MEMORY_LEVEL = 8;
const OUTPUT_BYTES = 64 * 1024;
const NOTHING = new Uint8Array(0);

export type Emit = (bytes: Uint8Array) => void;
export interface Codec {
  write(bytes: Uint8Array, emit: Emit): void | Promise<void>;
  end(emit: Emit): void | Promise<void>;
  /** Releases a codec that is dropped before its end. */
  close?(): void;
}

/** Runs zlib once, with a new output buffer. */
function step(stream: ZStream, room: Uint8Array<ArrayBuffer>, run: (stream: ZStream) => number, emit: Emit): number {
  stream.output = room;
  stream.next_out = 0;
  stream.avail_out = room.byteLength;
  const status = run(stream);
  if (stream.next_out > 0) emit(room.slice(0, stream.next_out));
  return status;
}

function feed(stream: ZStream, bytes: Uint8Array): void {
  stream.input = bytes;
  stream.next_in = 0;
  stream.avail_in = bytes.byteLength;
}

export function createCompressor(windowBits: number): Codec {
  const stream = new ZStream();
  const room = new Uint8Array(OUTPUT_BYTES);
  zlibDeflateInit2(stream, LEVEL, METHOD_DEFLATED, windowBits, MEMORY_LEVEL, Z_DEFAULT_STRATEGY);
  const run = (bytes: Uint8Array, flush: typeof Z_NO_FLUSH | typeof Z_FINISH, emit: Emit): void => {
    feed(stream, bytes);
    do step(stream, room, (it) => zlibDeflate(it, flush), emit);
    while (stream.avail_out === 0);
  };
  return { write: (bytes, emit) => run(bytes, Z_NO_FLUSH, emit), end: (emit) => run(NOTHING, Z_FINISH, emit) };
}

export function createDecompressor(windowBits: number): Codec {
  const stream = new ZStream();
  const room = new Uint8Array(OUTPUT_BYTES);
  zlibInflateInit2(stream, windowBits);
  let isOver = false;
  const write = (bytes: Uint8Array, emit: Emit): void => {
    feed(stream, bytes);
    while (!isOver) {
      const status = step(stream, room, (it) => zlibInflate(it, Z_NO_FLUSH), emit);
      if (status === Z_STREAM_END) isOver = true;
      else if (status === Z_BUF_ERROR) return;
      else if (status !== 0)
        throw new TypeError(`The compressed data is not valid: ${stream.msg || "it needs a dictionary"}`);
      else if (stream.avail_in === 0 && stream.avail_out > 0) return;
    }
    if (stream.avail_in > 0) throw new TypeError("There is data after the end of the compressed data");
  };
  const end = (): void => {
    if (!isOver) throw new TypeError("The compressed data ends too early");
  };
  return { write, end };
}
