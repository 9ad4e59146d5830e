// Encodes and decodes the messages between control plane and executors. Layout (little-endian): u8 0x47 · u8 version ·
// u8 number of parts · u32 length of each part · the parts. Part 0 is a message as JSON, the others are opaque bytes.
import { MAX_FRAME_BYTES } from "../../../sandbox/protocol/frames.ts";

/** Version of the protocol. A peer of another version is not used. */
export const FLEET_PROTOCOL_VERSION = 2;
const MAGIC = 0x47;
const MAX_PARTS = 12;
const HEAD_BYTES = 3;

/** Largest encoded message, inside an object: more than the largest frame of a worker, with the settings of its tool. */
export const MAX_FLEET_BYTES: number = MAX_FRAME_BYTES + 1024 * 1024;
/** Largest JSON of a message. Large values are parts. */
export const MAX_FLEET_JSON_BYTES: number = 512 * 1024;

/** Thrown for bytes that are not a message of this protocol. */
export class WireError extends Error {
  override readonly name = "WireError";
}

/** A decoded message. Its parts are views into the given bytes. */
export interface WireFrame {
  /** The parsed JSON, which has not been validated. */
  readonly message: unknown;
  readonly parts: readonly Buffer[];
}

/** Encodes a message with its parts. */
export function encodeFrame(message: object, parts: readonly (string | Uint8Array)[] = []): Buffer {
  const all = [JSON.stringify(message), ...parts];
  if (all.length > MAX_PARTS) throw new WireError(`Expected at most ${MAX_PARTS} parts, got ${all.length}`);
  const lengths = all.map((part) => (typeof part === "string" ? Buffer.byteLength(part) : part.byteLength));
  const total = lengths.reduce((sum, length) => sum + length, HEAD_BYTES + 4 * all.length);
  if (total > MAX_FLEET_BYTES) throw new WireError(`Expected at most ${MAX_FLEET_BYTES} bytes, got ${total}`);
  const buffer = Buffer.allocUnsafe(total);
  buffer[0] = MAGIC;
  buffer[1] = FLEET_PROTOCOL_VERSION;
  buffer[2] = all.length;
  let offset = HEAD_BYTES;
  for (const length of lengths) offset = buffer.writeUInt32LE(length, offset);
  for (const part of all) {
    if (typeof part === "string") offset += buffer.write(part, offset);
    else {
      buffer.set(part, offset);
      offset += part.byteLength;
    }
  }
  return buffer;
}

/** Whether bytes claim to be a message of this protocol. JSON of NATS itself never does. */
export const hasMagic = (bytes: Uint8Array): boolean => bytes[0] === MAGIC;

/**
 * Decodes a message.
 * @throws {WireError} for anything else
 */
export function decodeFrame(bytes: Uint8Array): WireFrame {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (buffer.length < HEAD_BYTES || buffer.length > MAX_FLEET_BYTES || buffer[0] !== MAGIC)
    throw new WireError("Expected a message of Glovebox");
  if (buffer[1] !== FLEET_PROTOCOL_VERSION)
    throw new WireError(`Expected version ${FLEET_PROTOCOL_VERSION}, got ${buffer[1]}`);
  const count = buffer[2] ?? 0;
  let offset = HEAD_BYTES + 4 * count;
  if (count < 1 || count > MAX_PARTS || offset > buffer.length)
    throw new WireError(`Expected 1 to ${MAX_PARTS} parts, got ${count}`);
  const parts: Buffer[] = [];
  for (let index = 0; index < count; index += 1) {
    const end = offset + buffer.readUInt32LE(HEAD_BYTES + 4 * index);
    if (end > buffer.length) throw new WireError("Expected the parts to fill the message, got a longer part");
    parts.push(buffer.subarray(offset, end));
    offset = end;
  }
  if (offset !== buffer.length) throw new WireError("Expected the parts to fill the message, got bytes after them");
  const [json, ...rest] = parts as [Buffer, ...Buffer[]];
  if (json.length > MAX_FLEET_JSON_BYTES)
    throw new WireError(`Expected at most ${MAX_FLEET_JSON_BYTES} bytes of JSON, got ${json.length}`);
  return { message: parseJson(json), parts: rest };
}

function parseJson(json: Buffer): unknown {
  try {
    return JSON.parse(json.toString());
  } catch {
    throw new WireError("Expected JSON, got other text");
  }
}
