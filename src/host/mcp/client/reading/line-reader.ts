// Splits a stream of bytes into lines: the messages on a program's stdout, or the fields of an event stream. Only the ends of a line that
// exceeds the limit are kept.
import { BoundedBytes, type LongMessage } from "./bounded-bytes.ts";

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

export interface LineReaderOptions {
  /** Limit for one line, in bytes. */
  readonly maxBytes: number;
  /**
   * Whether a carriage return also ends a line, alone or before a line feed, as in event streams.
   * @default false
   */
  readonly endsAtReturn?: boolean;
}

/** Reads lines. Memory stays below three times `maxBytes`, however small the pieces of a line are. */
export class LineReader {
  readonly #maxBytes: number;
  readonly #endsAtReturn: boolean;
  readonly #open: BoundedBytes;
  /** Whether the last piece ended with a carriage return: a line feed at the start of the next one belongs to it. */
  #isAfterReturn = false;

  constructor({ maxBytes, endsAtReturn = false }: LineReaderOptions) {
    this.#maxBytes = maxBytes;
    this.#endsAtReturn = endsAtReturn;
    this.#open = new BoundedBytes(maxBytes);
  }

  /** Bytes of the line that has not ended yet. */
  get openBytes(): number {
    return this.#open.bytes;
  }

  /** Yields the lines that end in this piece, including empty ones, without their line ends. */
  *read(piece: Buffer): Generator<Buffer | LongMessage, void> {
    let from = this.#isAfterReturn && piece[0] === LINE_FEED ? 1 : 0;
    if (piece.length > 0) this.#isAfterReturn = false;
    let feed = indexAfter(piece, LINE_FEED, from);
    let back = this.#endsAtReturn ? indexAfter(piece, CARRIAGE_RETURN, from) : piece.length;
    for (let end = Math.min(feed, back); end < piece.length; end = Math.min(feed, back)) {
      const part = piece.subarray(from, end);
      from = end + 1;
      if (end === back) {
        if (from === piece.length) this.#isAfterReturn = true;
        else if (piece[from] === LINE_FEED) from += 1;
      }
      // Each byte is searched only after the last position found: searching both for every line would be quadratic for short lines.
      if (feed < from) feed = indexAfter(piece, LINE_FEED, from);
      if (back < from) back = indexAfter(piece, CARRIAGE_RETURN, from);
      if (this.#open.bytes === 0 && part.length <= this.#maxBytes) yield part;
      else {
        this.#open.add(part);
        yield this.#open.take();
      }
    }
    if (from < piece.length) this.#open.add(piece.subarray(from));
  }
}

/** Returns the index of the next occurrence of a byte, or the length of the piece if there is none. */
function indexAfter(piece: Buffer, byte: number, from: number): number {
  const found = piece.indexOf(byte, from);
  return found < 0 ? piece.length : found;
}
