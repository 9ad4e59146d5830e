// Reads and writes the frames on the socket between host and worker. A frame consists of parts: part 0 is a message as JSON, the others are
// opaque bytes. Layout (little-endian): u32 number of bytes that follow · u32 number of parts · u32 length of each part · the parts.
import type { Socket } from "node:net";

/** A received frame. Its parts are views into memory that is not reused, so they stay valid. */
export type Frame = readonly [message: Buffer, ...parts: Buffer[]];

/** Maximum size of a frame: more than the largest payload (64 MiB) with its message. A peer that exceeds it is not trusted any more. */
export const MAX_FRAME_BYTES: number = 80 * 1024 * 1024;
/** A message, and up to three parts for each of two values: JSON text, BytesHeader, and bytes. */
const MAX_PARTS = 7;
const PREFIX_BYTES = 8;
/** Frames up to this total size are copied into one buffer: copying is cheaper than a write for each part. */
const COALESCE_BYTES = 64 * 1024;

/** Thrown when bytes are not valid frames, or a frame is too large. After a read error the connection cannot be used any more. */
export class FrameError extends Error {
  override readonly name = "FrameError";
}

/** A frame to write. It is serialized only when it is flushed, so that frames of one tick can share a buffer. */
class OutgoingFrame {
  readonly #parts: readonly (string | Uint8Array)[];
  readonly #lengths: readonly number[];
  readonly bytes: number;

  constructor(parts: readonly (string | Uint8Array)[]) {
    this.#parts = parts;
    this.#lengths = parts.map((part) => (typeof part === "string" ? Buffer.byteLength(part) : part.byteLength));
    this.bytes = this.#lengths.reduce((sum, length) => sum + length, this.#headBytes);
    const total = this.bytes - 4;
    if (total > MAX_FRAME_BYTES)
      throw new FrameError(`Expected a frame of at most ${MAX_FRAME_BYTES} bytes, got ${total}`);
  }

  get #headBytes(): number {
    return PREFIX_BYTES + this.#parts.length * 4;
  }

  #writeHead(buffer: Buffer, at: number): number {
    buffer.writeUInt32LE(this.bytes - 4, at);
    buffer.writeUInt32LE(this.#parts.length, at + 4);
    let offset = at + PREFIX_BYTES;
    for (const length of this.#lengths) offset = buffer.writeUInt32LE(length, offset);
    return offset;
  }

  /** Returns the offset after this frame. */
  writeTo(buffer: Buffer, at: number): number {
    let offset = this.#writeHead(buffer, at);
    for (const part of this.#parts) {
      if (typeof part === "string") offset += buffer.write(part, offset);
      else {
        buffer.set(part, offset);
        offset += part.byteLength;
      }
    }
    return offset;
  }

  /** Serializes a frame that does not share a buffer, without copying its bytes. */
  toBuffers(): Buffer[] {
    const head = Buffer.allocUnsafe(this.#headBytes);
    this.#writeHead(head, 0);
    const parts = this.#parts.map((part) =>
      typeof part === "string" ? Buffer.from(part) : Buffer.from(part.buffer, part.byteOffset, part.byteLength),
    );
    return [head, ...parts];
  }
}

/** Writes frames. Frames of one tick leave in one write. Frames that are written before `connect` wait for the socket. */
export class FrameWriter {
  #socket: Socket | undefined;
  #waiting: OutgoingFrame[] = [];
  #waitingBytes = 0;
  #isFlushing = false;
  /** Frames are numbered from 1. */
  #written = 0;
  /** Number of the last frame that was passed to the socket. */
  #flushed = 0;
  /** Large frames that the operating system has not accepted completely. The peer cannot have read any of them, or any later frame. */
  readonly #incomplete: number[] = [];

  constructor(socket?: Socket) {
    this.#socket = socket;
  }

  /** Connects a writer that was created without a socket. */
  connect(socket: Socket): void {
    this.#socket = socket;
    this.#flushSoon();
  }

  /** Bytes that were not sent yet. 0 before a socket is connected. */
  get pendingBytes(): number {
    return this.#socket === undefined ? 0 : this.#waitingBytes + this.#socket.writableLength;
  }

  /** Returns whether the peer may have read this frame, given the number that `write` returned. Returns true if in doubt. */
  mayBeRead(frame: number): boolean {
    const [firstIncomplete = Number.POSITIVE_INFINITY] = this.#incomplete;
    return frame <= this.#flushed && frame < firstIncomplete;
  }

  /**
   * Writes a message with its parts. Returns the frame's number, for `mayBeRead`.
   * @throws {FrameError} if the frame would exceed MAX_FRAME_BYTES
   */
  write(message: object, parts: readonly (string | Uint8Array)[] = []): number {
    const frame = new OutgoingFrame([JSON.stringify(message), ...parts]);
    this.#waiting.push(frame);
    this.#waitingBytes += frame.bytes;
    this.#flushSoon();
    this.#written += 1;
    return this.#written;
  }

  /** Sends what waits now. For a writer whose process is busy, so that the end of this turn of the event loop is too late. */
  flush(): void {
    if (this.#socket !== undefined && this.#waiting.length > 0) this.#flush();
  }

  #flushSoon(): void {
    if (this.#isFlushing || this.#socket === undefined || this.#waiting.length === 0) return;
    this.#isFlushing = true;
    process.nextTick(() => this.#flush());
  }

  #flush(): void {
    const frames = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#isFlushing = false;
    const socket = this.#socket;
    if (frames.length === 0 || socket === undefined || socket.destroyed) return;
    socket.cork();
    for (let index = 0; index < frames.length; ) {
      const frame = frames[index] as OutgoingFrame;
      if (frame.bytes > COALESCE_BYTES) {
        this.#writeLarge(socket, frame);
        index += 1;
      } else index += this.#writeSmall(socket, frames, index);
    }
    socket.uncork();
  }

  #writeLarge(socket: Socket, frame: OutgoingFrame): void {
    this.#flushed += 1;
    this.#incomplete.push(this.#flushed);
    const buffers = frame.toBuffers();
    const last = buffers.pop() as Buffer;
    for (const buffer of buffers) socket.write(buffer);
    socket.write(last, (failed) => failed ?? this.#incomplete.shift());
  }

  /** Writes as many frames from index `from` on as fit in one buffer. Returns their number. */
  #writeSmall(socket: Socket, frames: readonly OutgoingFrame[], from: number): number {
    let bytes = 0;
    let end = from;
    for (let frame = frames[end]; frame !== undefined && bytes + frame.bytes <= COALESCE_BYTES; frame = frames[end]) {
      bytes += frame.bytes;
      end += 1;
    }
    const buffer = Buffer.allocUnsafe(bytes);
    let at = 0;
    for (let index = from; index < end; index += 1) at = (frames[index] as OutgoingFrame).writeTo(buffer, at);
    socket.write(buffer);
    this.#flushed += end - from;
    return end - from;
  }
}

export interface FrameReaderOptions {
  /** Limit until `allow` raises it. Default: MAX_FRAME_BYTES. */
  readonly maxFrameBytes?: number;
  /**
   * Whether the peer is trusted to send the bytes that it announces: then the memory of a large frame is allocated at once and each byte is
   * copied into it once. Of a peer that is not trusted, memory is held only for bytes that have arrived. Default: false.
   */
  readonly trustsLengths?: boolean;
}

/** A frame whose memory is allocated, and how much of it has arrived. */
interface LargeFrame {
  readonly buffer: Buffer;
  filled: number;
}

/** Splits a byte stream into frames. It holds at most one frame. */
export class FrameReader {
  readonly #trustsLengths: boolean;
  #maxFrameBytes: number;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #large: LargeFrame | undefined;

  constructor({ maxFrameBytes = MAX_FRAME_BYTES, trustsLengths = false }: FrameReaderOptions = {}) {
    this.#maxFrameBytes = maxFrameBytes;
    this.#trustsLengths = trustsLengths;
  }

  /** Raises the maximum size of a frame. */
  allow(maxFrameBytes: number): void {
    this.#maxFrameBytes = Math.max(this.#maxFrameBytes, maxFrameBytes);
  }

  /**
   * Adds bytes and calls `onFrame` for each frame that is complete. Valid frames before an invalid one are delivered.
   * @param chunk must stay unchanged; with `trustsLengths` it is copied, so that its memory can be used again
   * @throws {FrameError} if a length or a number of parts is invalid
   */
  push(chunk: Buffer, onFrame: (frame: Frame) => void): void {
    const rest = this.#large === undefined ? chunk : this.#fill(this.#large, chunk, onFrame);
    if (rest.length === 0) return;
    this.#chunks.push(this.#trustsLengths ? Buffer.from(rest) : rest);
    this.#bytes += rest.length;
    for (;;) {
      const total = this.#peekTotal();
      if (total === undefined) return;
      if (this.#bytes < total + 4) {
        if (this.#trustsLengths && total > COALESCE_BYTES) this.#allocate(total + 4);
        return;
      }
      onFrame(toFrame(this.#take(total + 4)));
    }
  }

  #allocate(count: number): void {
    const buffer = Buffer.allocUnsafeSlow(count);
    let filled = 0;
    for (const chunk of this.#chunks) filled += chunk.copy(buffer, filled);
    this.#large = { buffer, filled };
    this.#chunks = [];
    this.#bytes = 0;
  }

  /** Returns the bytes after the end of the frame. */
  #fill(large: LargeFrame, chunk: Buffer, onFrame: (frame: Frame) => void): Buffer {
    const taken = chunk.copy(large.buffer, large.filled);
    large.filled += taken;
    if (large.filled === large.buffer.length) {
      this.#large = undefined;
      onFrame(toFrame(large.buffer));
    }
    return chunk.subarray(taken);
  }

  #peekTotal(): number | undefined {
    if (this.#bytes < 4) return undefined;
    let first = this.#chunks[0];
    if (first === undefined || first.length < 4) {
      first = Buffer.concat(this.#chunks);
      this.#chunks = [first];
    }
    const total = first.readUInt32LE(0);
    if (total < 8 || total > this.#maxFrameBytes) {
      throw new FrameError(`Expected a frame of 8 to ${this.#maxFrameBytes} bytes, got ${total}`);
    }
    return total;
  }

  #take(count: number): Buffer {
    const [first] = this.#chunks;
    const all = this.#chunks.length === 1 && first !== undefined ? first : Buffer.concat(this.#chunks);
    const taken = all.subarray(0, count);
    this.#chunks = all.length > count ? [all.subarray(count)] : [];
    this.#bytes -= count;
    return taken;
  }
}

function toFrame(buffer: Buffer): Frame {
  const count = buffer.readUInt32LE(4);
  if (count < 1 || count > MAX_PARTS || PREFIX_BYTES + count * 4 > buffer.length) {
    throw new FrameError(`Expected 1 to ${MAX_PARTS} parts, got ${count}`);
  }
  const parts: Buffer[] = [];
  let offset = PREFIX_BYTES + count * 4;
  for (let index = 0; index < count; index += 1) {
    const length = buffer.readUInt32LE(PREFIX_BYTES + index * 4);
    if (offset + length > buffer.length)
      throw new FrameError("Expected the parts to fill the frame, got a part that ends after the frame");
    parts.push(buffer.subarray(offset, offset + length));
    offset += length;
  }
  if (offset !== buffer.length)
    throw new FrameError("Expected the parts to fill the frame, got bytes after the last part");
  const [message, ...rest] = parts;
  if (message === undefined) throw new FrameError("Expected a message, got a frame without parts");
  return [message, ...rest];
}
