// Collects the bytes of one message that arrives in pieces. If the message exceeds a limit, only its two ends are kept, from which the id of
// the answered request can often still be read.

/** Bytes kept of each end of a message that is too long. */
export const END_BYTES = 512;
/** Size of the first buffer for a message that arrives in pieces. */
const FIRST_BYTES = 64 * 1024;
const NOTHING = Buffer.alloc(0);

/** A message that exceeds the limit. */
export interface LongMessage {
  readonly bytes: number;
  readonly head: Buffer;
  readonly tail: Buffer;
}

/** Both ends of a message. */
export type MessageEnds = Pick<LongMessage, "head" | "tail">;

/** Returns both ends of a complete message. */
export const endsOf = (message: Buffer): MessageEnds => ({
  head: message.subarray(0, END_BYTES),
  tail: message.subarray(-END_BYTES),
});

/** Collects one message. Memory stays below three times `maxBytes`, however small the pieces are. */
export class BoundedBytes {
  readonly #maxBytes: number;
  #kept: Buffer = NOTHING;
  /** Number of bytes added since the last `take()`, including those that were not kept. */
  #bytes = 0;
  #head: Buffer | undefined;
  #tail: Buffer = NOTHING;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(part: Buffer): void {
    const bytes = this.#bytes + part.length;
    if (this.#head === undefined && bytes <= this.#maxBytes) {
      this.#grow(bytes);
      part.copy(this.#kept, this.#bytes);
    } else this.#addToEnds(part);
    this.#bytes = bytes;
  }

  #addToEnds(part: Buffer): void {
    if (this.#head === undefined) {
      const kept = this.#kept.subarray(0, this.#bytes);
      this.#head = Buffer.concat([kept.subarray(0, END_BYTES), part.subarray(0, END_BYTES)]).subarray(0, END_BYTES);
      // A copy, because a view would keep the whole large buffer in memory.
      this.#tail = Buffer.from(kept.subarray(-END_BYTES));
      this.#kept = NOTHING;
    }
    this.#tail = Buffer.from(Buffer.concat([this.#tail, part.subarray(-END_BYTES)]).subarray(-END_BYTES));
  }

  /** Adds a part of which only the ends were kept. The message exceeds the limit then. */
  addLong({ bytes, head, tail }: LongMessage): void {
    this.#addToEnds(head);
    this.#tail = tail;
    this.#bytes += bytes;
  }

  /** Grows the one buffer. A list of pieces would take about a hundred bytes of memory for each piece of one byte. */
  #grow(bytes: number): void {
    if (bytes <= this.#kept.length) return;
    const next = Buffer.allocUnsafeSlow(Math.min(this.#maxBytes, Math.max(FIRST_BYTES, bytes, this.#kept.length * 2)));
    this.#kept.copy(next, 0, 0, this.#bytes);
    this.#kept = next;
  }

  /** Returns the message and resets the collector. The caller owns the buffer. */
  take(): Buffer | LongMessage {
    const head = this.#head;
    const bytes = this.#bytes;
    const taken = head === undefined ? this.#kept.subarray(0, bytes) : { bytes, head, tail: this.#tail };
    this.#kept = NOTHING;
    this.#bytes = 0;
    this.#head = undefined;
    this.#tail = NOTHING;
    return taken;
  }
}
