// Collects the bytes of one message that arrives in pieces. Up to a limit all of them are kept; past it only both ends, which can still
// tell which request the message would have answered.

/** Bytes kept of each end of a message that is too long. */
export const END_BYTES = 512;
/** Size of the first buffer for a message that arrives in pieces. */
const FIRST_BYTES = 64 * 1024;
const NOTHING = Buffer.alloc(0);

/** A message past the limit. */
export interface LongMessage {
  readonly bytes: number;
  readonly head: Buffer;
  readonly tail: Buffer;
}

/** Both ends of a message. */
export type MessageEnds = Pick<LongMessage, "head" | "tail">;

/** Returns both ends of a message that is there as a whole. */
export const endsOf = (message: Buffer): MessageEnds => ({
  head: message.subarray(0, END_BYTES),
  tail: message.subarray(-END_BYTES),
});

/** Memory stays below three times `maxBytes`, however small the pieces are. */
export class BoundedBytes {
  readonly #maxBytes: number;
  #kept: Buffer = NOTHING;
  /** Bytes added since the last `take()`, of a message that is too long as well. */
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
      this.#makeRoom(bytes);
      part.copy(this.#kept, this.#bytes);
    } else this.#addToEnds(part);
    this.#bytes = bytes;
  }

  #addToEnds(part: Buffer): void {
    if (this.#head === undefined) {
      const kept = this.#kept.subarray(0, this.#bytes);
      this.#head = Buffer.concat([kept.subarray(0, END_BYTES), part.subarray(0, END_BYTES)]).subarray(0, END_BYTES);
      // A copy: a part of the large buffer would hold all of it.
      this.#tail = Buffer.from(kept.subarray(-END_BYTES));
      this.#kept = NOTHING;
    }
    this.#tail = Buffer.from(Buffer.concat([this.#tail, part.subarray(-END_BYTES)]).subarray(-END_BYTES));
  }

  /** Adds a part of which only the ends are left: the message is too long by then. */
  addLong({ bytes, head, tail }: LongMessage): void {
    this.#addToEnds(head);
    this.#tail = tail;
    this.#bytes += bytes;
  }

  /** Grows one buffer: a thousand pieces of one byte would each take about a hundred bytes of memory. */
  #makeRoom(bytes: number): void {
    if (bytes <= this.#kept.length) return;
    const next = Buffer.allocUnsafeSlow(Math.min(this.#maxBytes, Math.max(FIRST_BYTES, bytes, this.#kept.length * 2)));
    this.#kept.copy(next, 0, 0, this.#bytes);
    this.#kept = next;
  }

  /** Returns what was added, and starts anew. The buffer belongs to the caller. */
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
