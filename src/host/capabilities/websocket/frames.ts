// Frames of the WebSocket protocol (RFC 6455) for a client: parses the untrusted frames of a server, and writes masked frames. Messages are
// passed on in parts as they arrive, so that the host never holds a whole message.
import { isUtf8 } from "node:buffer";
import { randomFillSync } from "node:crypto";

export const OPCODES = { continuation: 0x0, text: 0x1, binary: 0x2, close: 0x8, ping: 0x9, pong: 0xa } as const;
export type Opcode = (typeof OPCODES)[keyof typeof OPCODES];

/** Close codes that the host sends when it fails a connection. */
export const CLOSE_CODES = { protocolError: 1002, invalidData: 1007, tooBig: 1009 } as const;
/** Reported for a close frame without a code; never sent (RFC 6455, 7.4.1). */
export const NO_CODE = 1005;
/** Reported for a connection that ended without a closing handshake; never sent (RFC 6455, 7.4.1). */
export const ABNORMAL = 1006;

/** Longest payload of a close, ping or pong frame. */
const MAX_CONTROL_BYTES = 125;
const CODE_BYTES = 2;
const FINAL = 0x80;
const RESERVED_BITS = 0x70;
const OPCODE_BITS = 0x0f;
const MASKED = 0x80;
const LENGTH_BITS = 0x7f;
/** Values of the seven length bits that announce a longer length. */
const LENGTH_16 = 126;
const LENGTH_64 = 127;
const MASK_BYTES = 4;

/** A violation of the protocol by the server, with the close code to send. */
export class WebSocketFrameError extends Error {
  readonly closeCode: number;
  constructor(message: string, closeCode: number = CLOSE_CODES.protocolError) {
    super(message);
    this.closeCode = closeCode;
  }
}

export type WebSocketFrame =
  /** A part of a message, which may be empty. */
  | { readonly kind: "data"; readonly isText: boolean; readonly bytes: Buffer; readonly isLast: boolean }
  | { readonly kind: "ping" | "pong"; readonly bytes: Buffer }
  | { readonly kind: "close"; readonly code: number; readonly reason: string };

interface Head {
  readonly opcode: number;
  readonly isFinal: boolean;
  readonly length: number;
  /** Length of the head. */
  readonly bytes: number;
}

/** Close codes that are valid in a frame (RFC 6455, 7.4, and IANA's registry). */
const isCloseCode = (code: number): boolean =>
  (code >= 1_000 && code <= 1_014 && code !== 1_004 && code !== NO_CODE && code !== ABNORMAL) ||
  (code >= 3_000 && code <= 4_999);

/** Buffers received bytes, and parses one frame for each call of `next`. */
export class WebSocketFrameReader {
  readonly #maxMessageBytes: number;
  readonly #tooBig: () => WebSocketFrameError;
  #rest: Buffer = Buffer.alloc(0);
  /** Bytes of the current data frame that have not been read. */
  #left = 0;
  #isFinal = true;
  /** Undefined between messages. */
  #message: { readonly isText: boolean; bytes: number } | undefined;

  /** @param tooBig creates the error for a message of more than `maxMessageBytes` */
  constructor(maxMessageBytes: number, tooBig: () => WebSocketFrameError) {
    this.#maxMessageBytes = maxMessageBytes;
    this.#tooBig = tooBig;
  }

  /** Number of bytes that have been pushed but not parsed. */
  get waitingBytes(): number {
    return this.#rest.length;
  }

  push(chunk: Buffer): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
  }

  /** Returns the next frame, or undefined if it needs more bytes. @throws {WebSocketFrameError} */
  next(): WebSocketFrame | undefined {
    for (;;) {
      if (this.#left > 0) return this.#rest.length === 0 ? undefined : this.#part();
      const head = this.#head();
      if (head === undefined) return undefined;
      if (head.opcode >= OPCODES.close) return this.#control(head);
      this.#begin(head);
      if (head.length === 0) return this.#part();
    }
  }

  #take(bytes: number): Buffer {
    const taken = this.#rest.subarray(0, bytes);
    this.#rest = this.#rest.subarray(bytes);
    return taken;
  }

  #head(): Head | undefined {
    const rest = this.#rest;
    const [first, second] = rest;
    if (first === undefined || second === undefined) return undefined;
    const opcode = first & OPCODE_BITS;
    const isFinal = (first & FINAL) !== 0;
    if ((first & RESERVED_BITS) !== 0)
      throw new WebSocketFrameError("a frame uses an extension that was not negotiated");
    if ((second & MASKED) !== 0) throw new WebSocketFrameError("a frame of the server is masked");
    this.#checkOpcode(opcode, isFinal);
    const short = second & LENGTH_BITS;
    if (opcode >= OPCODES.close && short > MAX_CONTROL_BYTES) {
      throw new WebSocketFrameError(`a control frame is longer than ${MAX_CONTROL_BYTES} bytes`);
    }
    if (short < LENGTH_16) return { opcode, isFinal, length: short, bytes: 2 };
    const bytes = short === LENGTH_16 ? 4 : 10;
    if (rest.length < bytes) return undefined;
    // Lengths above 2^53 lose precision, but exceed every limit anyway.
    const length = short === LENGTH_16 ? rest.readUInt16BE(2) : Number(rest.readBigUInt64BE(2));
    const least = short === LENGTH_16 ? LENGTH_16 : 0x1_0000;
    if (length < least) throw new WebSocketFrameError("a frame's length is not in its shortest encoding");
    return { opcode, isFinal, length, bytes };
  }

  #checkOpcode(opcode: number, isFinal: boolean): void {
    if (opcode >= OPCODES.close) {
      if (opcode > OPCODES.pong) throw new WebSocketFrameError(`a frame has the unknown opcode ${opcode}`);
      if (!isFinal) throw new WebSocketFrameError("a control frame is fragmented");
    } else if (opcode > OPCODES.binary) throw new WebSocketFrameError(`a frame has the unknown opcode ${opcode}`);
    else if (opcode === OPCODES.continuation && this.#message === undefined) {
      throw new WebSocketFrameError("a frame continues a message that has not begun");
    } else if (opcode !== OPCODES.continuation && this.#message !== undefined) {
      throw new WebSocketFrameError("a message begins before the last one has ended");
    }
  }

  #begin({ opcode, isFinal, length, bytes }: Head): void {
    const message = this.#message ?? { isText: opcode === OPCODES.text, bytes: 0 };
    message.bytes += length;
    if (message.bytes > this.#maxMessageBytes) throw this.#tooBig();
    this.#take(bytes);
    this.#message = message;
    this.#left = length;
    this.#isFinal = isFinal;
  }

  #part(): WebSocketFrame {
    const bytes = this.#take(this.#left);
    this.#left -= bytes.length;
    const isLast = this.#left === 0 && this.#isFinal;
    const isText = this.#message?.isText === true;
    if (isLast) this.#message = undefined;
    return { kind: "data", isText, bytes, isLast };
  }

  #control({ opcode, length, bytes }: Head): WebSocketFrame | undefined {
    if (this.#rest.length < bytes + length) return undefined;
    this.#take(bytes);
    const payload = this.#take(length);
    if (opcode === OPCODES.ping) return { kind: "ping", bytes: payload };
    if (opcode === OPCODES.pong) return { kind: "pong", bytes: payload };
    return { kind: "close", ...readClose(payload) };
  }
}

function readClose(payload: Buffer): { readonly code: number; readonly reason: string } {
  if (payload.length === 0) return { code: NO_CODE, reason: "" };
  if (payload.length < CODE_BYTES) throw new WebSocketFrameError("a close frame has an incomplete code");
  const code = payload.readUInt16BE();
  if (!isCloseCode(code)) throw new WebSocketFrameError(`a close frame has the invalid code ${code}`);
  const reason = payload.subarray(CODE_BYTES);
  if (!isUtf8(reason))
    throw new WebSocketFrameError("the reason of a close frame is not UTF-8", CLOSE_CODES.invalidData);
  return { code, reason: reason.toString() };
}

/** Encodes a frame of a client, masked with four random bytes. */
export function encodeWebSocketFrame(opcode: Opcode, payload: Buffer, isFinal = true): Buffer {
  const { length } = payload;
  const lengthBytes = length < LENGTH_16 ? 0 : length < 0x1_0000 ? 2 : 8;
  const maskAt = 2 + lengthBytes;
  const frame = Buffer.allocUnsafe(maskAt + MASK_BYTES + length);
  frame[0] = (isFinal ? FINAL : 0) | opcode;
  frame[1] = MASKED | (lengthBytes === 0 ? length : lengthBytes === 2 ? LENGTH_16 : LENGTH_64);
  if (lengthBytes === 2) frame.writeUInt16BE(length, 2);
  else if (lengthBytes === 8) frame.writeBigUInt64BE(BigInt(length), 2);
  randomFillSync(frame, maskAt, MASK_BYTES);
  const at = maskAt + MASK_BYTES;
  for (let index = 0; index < length; index += 1) {
    frame[at + index] = (payload[index] as number) ^ (frame[maskAt + (index & 3)] as number);
  }
  return frame;
}

/** Encodes a close frame. @param code undefined for a frame without code and reason */
export function encodeClose(code: number | undefined, reason = ""): Buffer {
  if (code === undefined) return encodeWebSocketFrame(OPCODES.close, Buffer.alloc(0));
  const payload = Buffer.alloc(CODE_BYTES + Buffer.byteLength(reason));
  payload.writeUInt16BE(code);
  payload.write(reason, CODE_BYTES);
  return encodeWebSocketFrame(OPCODES.close, payload);
}
