// The bytes on the one socket between host and worker: length-prefixed frames of parts. Part 0 is a message as JSON; the rest are opaque.
// Layout (little-endian): u32 bytes of all that follows · u32 number of parts · u32 length of each part · the parts.
import type { Socket } from "node:net";

/** A frame as it arrived. Parts are views into memory of their own: they stay valid. */
export type Frame = readonly [message: Buffer, ...parts: Buffer[]];

/** Larger than the largest payload (64 MiB) with its message: a frame past it is nonsense, and the peer is not to be believed. */
export const MAX_FRAME_BYTES: number = 80 * 1024 * 1024;
/** A message, and three parts for each of two values: text, and where it holds bytes what they are and the bytes. */
const MAX_PARTS = 7;
const PREFIX_BYTES = 8;
/** Frames that fit in this together leave as one buffer: a copy is cheaper than a write for each part. */
const COALESCE_BYTES = 64 * 1024;

/** Thrown by {@link FrameReader.push} when the bytes are not frames. The connection is of no more use. */
export class FrameError extends Error {
  override readonly name = "FrameError";
}

/** A frame to be written. Its bytes are made when it leaves, so that frames of one tick can share a buffer. */
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

  /** Returns where the next one begins. */
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

  /** For a frame that shares no buffer: bytes are not copied. */
  toBuffers(): Buffer[] {
    const head = Buffer.allocUnsafe(this.#headBytes);
    this.#writeHead(head, 0);
    const parts = this.#parts.map((part) =>
      typeof part === "string" ? Buffer.from(part) : Buffer.from(part.buffer, part.byteOffset, part.byteLength),
    );
    return [head, ...parts];
  }
}

/** Writes frames; those of one tick leave in one write. What is written before there is a socket waits for it. */
export class FrameWriter {
  #socket: Socket | undefined;
  #waiting: OutgoingFrame[] = [];
  #waitingBytes = 0;
  #isFlushing = false;
  /** Frames are numbered from 1. */
  #written = 0;
  /** The last one that the socket was given. */
  #given = 0;
  /** Large ones that the operating system has not taken whole: no peer can have read one of them, nor any after it. */
  readonly #leaving: number[] = [];

  constructor(socket?: Socket) {
    this.#socket = socket;
  }

  /** For a writer made without one. */
  connect(socket: Socket): void {
    this.#socket = socket;
    this.#flushSoon();
  }

  /** Bytes that the peer has not taken yet, since there is a socket. */
  get pendingBytes(): number {
    return this.#socket === undefined ? 0 : this.#waitingBytes + this.#socket.writableLength;
  }

  /** Whether the peer may have read this frame, by the number that `write` returned: in doubt it has. */
  mayBeRead(frame: number): boolean {
    const [firstLeaving = Number.POSITIVE_INFINITY] = this.#leaving;
    return frame <= this.#given && frame < firstLeaving;
  }

  /**
   * Returns the frame's number, for `mayBeRead`.
   * @throws {FrameError} when the frame would pass MAX_FRAME_BYTES
   */
  write(message: object, parts: readonly (string | Uint8Array)[] = []): number {
    const frame = new OutgoingFrame([JSON.stringify(message), ...parts]);
    this.#waiting.push(frame);
    this.#waitingBytes += frame.bytes;
    this.#flushSoon();
    this.#written += 1;
    return this.#written;
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
    if (socket === undefined || socket.destroyed) return;
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
    this.#given += 1;
    this.#leaving.push(this.#given);
    const buffers = frame.toBuffers();
    const last = buffers.pop() as Buffer;
    for (const buffer of buffers) socket.write(buffer);
    socket.write(last, (failed) => failed ?? this.#leaving.shift());
  }

  /** Those from `from` on that fit in one buffer. Returns how many. */
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
    this.#given += end - from;
    return end - from;
  }
}

/** Cuts a byte stream into frames. Bounded: it holds at most one frame and never allocates what a length merely claims. */
export class FrameReader {
  #maxFrameBytes: number;
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(maxFrameBytes: number = MAX_FRAME_BYTES) {
    this.#maxFrameBytes = maxFrameBytes;
  }

  /** From now on frames may be this large, if they could not before. */
  allow(maxFrameBytes: number): void {
    this.#maxFrameBytes = Math.max(this.#maxFrameBytes, maxFrameBytes);
  }

  /**
   * Takes bytes, hands on each frame that they complete; those before nonsense are good.
   * @throws {FrameError} a length or count that no peer of ours sends
   */
  push(chunk: Buffer, onFrame: (frame: Frame) => void): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    for (;;) {
      const total = this.#peekTotal();
      if (total === undefined || this.#bytes < total + 4) return;
      onFrame(toFrame(this.#take(total + 4)));
    }
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
      throw new FrameError("Expected the parts to fill the frame, got a part past its end");
    parts.push(buffer.subarray(offset, offset + length));
    offset += length;
  }
  if (offset !== buffer.length) throw new FrameError("Expected the parts to fill the frame, got bytes left over");
  const [message, ...rest] = parts;
  if (message === undefined) throw new FrameError("Expected a message, got none");
  return [message, ...rest];
}
