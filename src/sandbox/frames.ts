// The bytes on the one socket between host and worker: length-prefixed frames of parts. Part 0 is a message as JSON; the rest are opaque.
// Layout (little-endian): u32 bytes of all that follows · u32 number of parts · u32 length of each part · the parts.
import type { Socket } from "node:net";

/** A frame as it arrived. Parts are views into memory of their own: they stay valid. */
export type Frame = readonly [message: Buffer, ...parts: Buffer[]];

/** Larger than the largest payload (64 MiB) with its message: a frame past it is nonsense, and the peer is not to be believed. */
export const MAX_FRAME_BYTES: number = 80 * 1024 * 1024;
const MAX_PARTS = 4;
const PREFIX_BYTES = 8;
/** Below this, one copy into one buffer is cheaper than a write for each part. */
const COALESCE_BYTES = 64 * 1024;

/** Thrown by {@link FrameReader.push} when the bytes are not frames. The connection is of no more use. */
export class FrameError extends Error {
  override readonly name = "FrameError";
}

function toFrameBuffers(parts: readonly (string | Uint8Array)[]): Buffer[] {
  const buffers = parts.map((part) => (typeof part === "string" ? Buffer.from(part) : part));
  const lengths = buffers.reduce((sum, buffer) => sum + buffer.byteLength, 0);
  const head = Buffer.allocUnsafe(PREFIX_BYTES + buffers.length * 4);
  const total = head.length - 4 + lengths;
  if (total > MAX_FRAME_BYTES)
    throw new FrameError(`Expected a frame of at most ${MAX_FRAME_BYTES} bytes, got ${total}`);
  head.writeUInt32LE(total, 0);
  head.writeUInt32LE(buffers.length, 4);
  buffers.forEach((buffer, index) => {
    head.writeUInt32LE(buffer.byteLength, PREFIX_BYTES + index * 4);
  });
  if (lengths <= COALESCE_BYTES) return [Buffer.concat([head, ...buffers])];
  return [head, ...buffers.map((buffer) => Buffer.from(buffer.buffer, buffer.byteOffset, buffer.byteLength))];
}

interface Outgoing {
  readonly buffers: readonly Buffer[];
  readonly onSent: (() => void) | undefined;
}

/** Writes frames; those of one tick leave in one write. What is written before there is a socket waits for it. */
export class FrameWriter {
  #socket: Socket | undefined;
  #waiting: Outgoing[] = [];
  #corked = false;

  constructor(socket?: Socket) {
    this.#socket = socket;
  }

  /** For a writer made without one. */
  connect(socket: Socket): void {
    this.#socket = socket;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const outgoing of waiting) this.#send(socket, outgoing);
  }

  /** Bytes that the peer has not taken yet, of those that its socket was given. */
  get pendingBytes(): number {
    return this.#socket?.writableLength ?? 0;
  }

  /**
   * @param onSent called when the operating system has taken all of it; never, if the peer is gone
   * @throws {FrameError} when the frame would pass MAX_FRAME_BYTES
   */
  write(message: object, parts: readonly (string | Uint8Array)[] = [], onSent?: () => void): void {
    const outgoing = { buffers: toFrameBuffers([JSON.stringify(message), ...parts]), onSent };
    if (this.#socket === undefined) this.#waiting.push(outgoing);
    else this.#send(this.#socket, outgoing);
  }

  #send(socket: Socket, { buffers, onSent }: Outgoing): void {
    if (socket.destroyed) return;
    if (!this.#corked) {
      this.#corked = true;
      socket.cork();
      process.nextTick(() => {
        this.#corked = false;
        socket.uncork();
      });
    }
    const last = buffers.length - 1;
    for (const [index, buffer] of buffers.entries()) {
      if (index < last || onSent === undefined) socket.write(buffer);
      else socket.write(buffer, (failed) => failed ?? onSent());
    }
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
