// Frames between replicas. A message is a few byte strings, cut into frames of limited size. Each frame is encrypted with AES-256-GCM under a key
// that belongs to one exchange and one direction, with its number as the nonce: one that is forged, repeated, left out, moved to another place or
// meant for another replica cannot be decrypted.
import { createCipheriv, createDecipheriv } from "node:crypto";

const LENGTH_BYTES = 4;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** Says whether the message goes on in the next frame. */
const FLAG_BYTES = 1;
/** Maximum number of bytes of a message in one frame. */
const FRAME_BYTES = 256 * 1024;
const LARGEST_FRAME = FLAG_BYTES + FRAME_BYTES + TAG_BYTES;
/** Largest message in bytes: more than the longest input or output, with what belongs to it. */
const MESSAGE_BYTES = 384 * 1024 * 1024;
const GOES_ON = 1;
const ENDS = 0;

/** The bytes of another replica, or of a program in its place, are invalid. */
export class PeerProtocolError extends Error {
  override readonly name = "PeerProtocolError";
}

/** The key of the frames in one direction of an exchange, and what they are bound to. */
export interface FrameKey {
  /** 32 bytes. */
  readonly key: Buffer;
  /** Names the exchange, its sender and its receiver, and the direction. */
  readonly context: string;
}

function toNonce(number: number): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeBigUInt64BE(BigInt(number), NONCE_BYTES - 8);
  return nonce;
}

const toAssociatedData = ({ context }: FrameKey, number: number): Buffer =>
  Buffer.from(JSON.stringify([context, number]));

/** Encrypts the messages of one direction. */
export class FrameSealer {
  readonly #key: FrameKey;
  #number = 0;

  constructor(key: FrameKey) {
    this.#key = key;
  }

  /**
   * Returns the frames of a message, each after its length.
   * @throws {RangeError} for a message that is too large
   */
  seal(parts: readonly Uint8Array[]): readonly Buffer[] {
    const message = pack(parts);
    if (message.byteLength > MESSAGE_BYTES)
      throw new RangeError(`A message between replicas has at most ${MESSAGE_BYTES} bytes`);
    const frames: Buffer[] = [];
    let from = 0;
    do {
      const until = Math.min(message.byteLength, from + FRAME_BYTES);
      frames.push(this.#sealFrame(message.subarray(from, until), until < message.byteLength ? GOES_ON : ENDS));
      from = until;
    } while (from < message.byteLength);
    return frames;
  }

  #sealFrame(content: Uint8Array, flag: number): Buffer {
    const { key } = this.#key;
    const cipher = createCipheriv("aes-256-gcm", key, toNonce(this.#number)).setAAD(
      toAssociatedData(this.#key, this.#number),
    );
    this.#number += 1;
    const encrypted = Buffer.concat([cipher.update(Buffer.of(flag)), cipher.update(content), cipher.final()]);
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32BE(encrypted.byteLength + TAG_BYTES);
    return Buffer.concat([length, encrypted, cipher.getAuthTag()]);
  }
}

/** Reads what another replica sends, frame by frame. Keeps at most one frame and what has arrived with it. */
export class PeerFrameReader {
  readonly #source: AsyncIterator<Buffer>;
  #buffered: Buffer[] = [];
  #size = 0;
  #received = 0;
  #isOver = false;

  /** @param source the bytes as they arrive, such as a request or a response */
  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** How many bytes have arrived. */
  get received(): number {
    return this.#received;
  }

  /**
   * Returns the next message; undefined if the other side has sent its last one.
   * @param key the same for all messages of a direction
   * @param maxBytes largest message that is accepted. Default: 384 MiB
   * @throws {PeerProtocolError} for bytes that are not a message of the other side
   */
  async next(key: FrameOpener, maxBytes: number = MESSAGE_BYTES): Promise<readonly Buffer[] | undefined> {
    const contents: Buffer[] = [];
    let size = 0;
    for (;;) {
      const frame = await this.#frame(Math.min(LARGEST_FRAME, FLAG_BYTES + maxBytes - size + TAG_BYTES));
      if (frame === undefined && contents.length === 0) return undefined;
      if (frame === undefined) throw new PeerProtocolError("The message ended too soon");
      const { content, goesOn } = key.open(frame);
      contents.push(content);
      size += content.byteLength;
      if (!goesOn) return unpack(Buffer.concat(contents));
      if (content.byteLength === 0) throw new PeerProtocolError("Empty frame");
    }
  }

  /** Reads to the end, where nothing may follow. Rejects for anything else, and for a stream that has failed. */
  async end(): Promise<void> {
    if ((await this.#take(1)) !== undefined) throw new PeerProtocolError("Expected the end of the stream");
  }

  /** Returns the next frame; undefined at the end. */
  async #frame(maxBytes: number): Promise<Buffer | undefined> {
    const header = await this.#take(LENGTH_BYTES);
    if (header === undefined) return undefined;
    const length = header.readUInt32BE();
    if (length > maxBytes) throw new PeerProtocolError(`Expected a frame of at most ${maxBytes} bytes, got ${length}`);
    const frame = await this.#take(length);
    if (frame === undefined) throw new PeerProtocolError("The frame ended too soon");
    return frame;
  }

  /** Returns this many bytes; undefined if there are none at all. */
  async #take(length: number): Promise<Buffer | undefined> {
    while (this.#size < length && !this.#isOver) {
      const { done, value } = await this.#source.next();
      if (done === true) this.#isOver = true;
      else {
        this.#buffered.push(value);
        this.#size += value.byteLength;
        this.#received += value.byteLength;
      }
    }
    if (this.#size === 0 && length > 0) return undefined;
    if (this.#size < length) throw new PeerProtocolError("The stream ended too soon");
    const [first] = this.#buffered;
    const all = this.#buffered.length === 1 && first !== undefined ? first : Buffer.concat(this.#buffered);
    this.#buffered = all.byteLength > length ? [all.subarray(length)] : [];
    this.#size = all.byteLength - length;
    return all.subarray(0, length);
  }
}

/** Decrypts the frames of one direction, in their order. */
export class FrameOpener {
  readonly #key: FrameKey;
  #number = 0;

  constructor(key: FrameKey) {
    this.#key = key;
  }

  /** @throws {PeerProtocolError} */
  open(frame: Buffer): { readonly content: Buffer; readonly goesOn: boolean } {
    if (frame.byteLength < FLAG_BYTES + TAG_BYTES) throw new PeerProtocolError("The frame is too short");
    const end = frame.byteLength - TAG_BYTES;
    let opened: Buffer;
    try {
      const decipher = createDecipheriv("aes-256-gcm", this.#key.key, toNonce(this.#number))
        .setAAD(toAssociatedData(this.#key, this.#number))
        .setAuthTag(frame.subarray(end));
      opened = Buffer.concat([decipher.update(frame.subarray(0, end)), decipher.final()]);
    } catch {
      throw new PeerProtocolError("The frame cannot be decrypted");
    }
    this.#number += 1;
    const flag = opened[0];
    if (flag !== GOES_ON && flag !== ENDS) throw new PeerProtocolError("Unknown kind of frame");
    return { content: opened.subarray(FLAG_BYTES), goesOn: flag === GOES_ON };
  }
}

/** Joins the parts of a message, each after its length. */
function pack(parts: readonly Uint8Array[]): Buffer {
  const packed = Buffer.alloc(parts.reduce((sum, { byteLength }) => sum + LENGTH_BYTES + byteLength, 0));
  let offset = 0;
  for (const part of parts) {
    offset = packed.writeUInt32BE(part.byteLength, offset);
    packed.set(part, offset);
    offset += part.byteLength;
  }
  return packed;
}

/** @throws {PeerProtocolError} for lengths that do not match */
function unpack(packed: Buffer): readonly Buffer[] {
  const parts: Buffer[] = [];
  let offset = 0;
  while (offset < packed.byteLength) {
    const begin = offset + LENGTH_BYTES;
    const end = begin > packed.byteLength ? begin : begin + packed.readUInt32BE(offset);
    if (end > packed.byteLength) throw new PeerProtocolError("The parts of the message are not valid");
    parts.push(packed.subarray(begin, end));
    offset = end;
  }
  return parts;
}
