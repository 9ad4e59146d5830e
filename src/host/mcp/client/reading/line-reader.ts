// Splits a stream of bytes into lines: the messages of a program's stdout, or the fields of an event stream. Of a line that is too long
// only the ends are kept.
import { BoundedBytes, type LongMessage } from "./bounded-bytes.ts";

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

export interface LineReaderOptions {
  /** Limit for one line, in bytes. */
  readonly maxBytes: number;
  /** Whether a carriage return ends a line too, alone or before a line feed, as in event streams. @default false */
  readonly endsAtReturn?: boolean;
}

/** Memory stays below three times `maxBytes`, however small the pieces are that a line comes in. */
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

  /** Yields the lines that end in this piece, without their line ends; empty lines too. */
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
      // Each is looked for once: to look for both at every line would read a piece of short lines thousands of times.
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

/** Returns the index of the next such byte, or the length where there is none. */
function indexAfter(piece: Buffer, byte: number, from: number): number {
  const found = piece.indexOf(byte, from);
  return found < 0 ? piece.length : found;
}
