// Converts between bytes and text whose code units they are: latin1, ascii and utf16le. In pieces, because a string that grows by one character
// at a time is a rope, with 32 bytes for each of them.

/** Number of character codes per call of String.fromCharCode. */
const PIECE_LENGTH = 8_192;

/** Joins pieces of code units. @param fill writes those from a position, and returns the part of the piece that it has filled */
function joinPieces(length: number, fill: (start: number, count: number) => Uint8Array | Uint16Array): string {
  let text = "";
  for (let start = 0; start < length; start += PIECE_LENGTH) {
    // Not spread: iterating over the units takes several times as long.
    text += Reflect.apply(String.fromCharCode, undefined, fill(start, Math.min(PIECE_LENGTH, length - start)));
  }
  return text;
}

export const fromLatin1Bytes = (bytes: Uint8Array): string =>
  joinPieces(bytes.length, (start, count) => bytes.subarray(start, start + count));

/** As in Node, the highest bit of each byte is ignored. */
export const fromAsciiBytes = (bytes: Uint8Array): string =>
  joinPieces(bytes.length, (start, count) => bytes.subarray(start, start + count).map((byte) => byte & 127));

/** A byte after the last whole unit is ignored. All platforms with an isolate are little-endian. */
export function fromUtf16Bytes(bytes: Uint8Array): string {
  const piece = new Uint16Array(PIECE_LENGTH);
  const pieceBytes = new Uint8Array(piece.buffer);
  return joinPieces(Math.floor(bytes.length / 2), (start, count) => {
    // The bytes may not be aligned.
    pieceBytes.set(bytes.subarray(start * 2, (start + count) * 2));
    return piece.subarray(0, count);
  });
}

/** Of a character beyond latin1, the low byte is kept. */
export function toLatin1Bytes(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index += 1) bytes[index] = text.charCodeAt(index);
  return bytes;
}

export function toUtf16Bytes(text: string): Uint8Array {
  const units = new Uint16Array(text.length);
  for (let index = 0; index < text.length; index += 1) units[index] = text.charCodeAt(index);
  return new Uint8Array(units.buffer);
}
