// Lines of a stream as bytes, and of a line that is too long only its ends: they tell which request it would have answered.

/** Kept of each end of a line that is too long. */
const END_BYTES = 512;
const NEW_LINE = 10;

/** Of an answer that was there and cannot be read, as an error of JSON-RPC: ours, in the range that is left to implementations. */
export const UNREADABLE_CODE = -32_098;
/** What a line that comes in pieces is first kept in. */
const FIRST_BYTES = 64 * 1024;
const NOTHING = Buffer.alloc(0);

/** A line past the bound. */
export interface LongLine {
  readonly bytes: number;
  readonly head: Buffer;
  readonly tail: Buffer;
}

/** Memory stays below three times `maxBytes`, however small the pieces are that a line comes in. */
export class LineReader {
  readonly #maxBytes: number;
  #kept: Buffer = NOTHING;
  /** Of `#kept`, what is filled; of a line that is too long, all of it so far. */
  #bytes = 0;
  #head: Buffer | undefined;
  #tail: Buffer = NOTHING;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of the line that has not ended yet. */
  get openBytes(): number {
    return this.#bytes;
  }

  /** Lines that end in this piece, without their ends; empty ones too. */
  *read(piece: Buffer): Generator<Buffer | LongLine, void> {
    let from = 0;
    for (let end = piece.indexOf(NEW_LINE); end >= 0; end = piece.indexOf(NEW_LINE, from)) {
      const part = piece.subarray(from, end);
      from = end + 1;
      if (this.#bytes === 0 && part.length <= this.#maxBytes) yield part;
      else {
        this.#add(part);
        yield this.#end();
      }
    }
    if (from < piece.length) this.#add(piece.subarray(from));
  }

  #add(part: Buffer): void {
    const bytes = this.#bytes + part.length;
    if (this.#head === undefined && bytes <= this.#maxBytes) {
      this.#makeRoom(bytes);
      part.copy(this.#kept, this.#bytes);
    } else {
      if (this.#head === undefined) {
        const kept = this.#kept.subarray(0, this.#bytes);
        this.#head = Buffer.concat([kept.subarray(0, END_BYTES), part.subarray(0, END_BYTES)]).subarray(0, END_BYTES);
        this.#tail = kept.subarray(-END_BYTES);
        this.#kept = NOTHING;
      }
      this.#tail = Buffer.from(Buffer.concat([this.#tail, part.subarray(-END_BYTES)]).subarray(-END_BYTES));
    }
    this.#bytes = bytes;
  }

  /** A buffer of its own: a thousand pieces of one byte would each hold some hundred. */
  #makeRoom(bytes: number): void {
    if (bytes <= this.#kept.length) return;
    const next = Buffer.allocUnsafeSlow(Math.min(this.#maxBytes, Math.max(FIRST_BYTES, bytes, this.#kept.length * 2)));
    this.#kept.copy(next, 0, 0, this.#bytes);
    this.#kept = next;
  }

  #end(): Buffer | LongLine {
    const head = this.#head;
    const bytes = this.#bytes;
    const line = head === undefined ? this.#kept.subarray(0, bytes) : { bytes, head, tail: this.#tail };
    this.#kept = NOTHING;
    this.#bytes = 0;
    this.#head = undefined;
    this.#tail = NOTHING;
    return line;
  }
}

/** An id as JSON-RPC has it, within reason. */
const ID = String.raw`(\d{1,15}|"[^"\\]{1,200}")`;
const BEGINS_WITH_ID = new RegExp(
  String.raw`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*${ID}\s*,\s*"(?:result|error)"`,
);
const BEGINS_AS_ANSWER = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"/;
const ENDS_WITH_ID = new RegExp(String.raw`,\s*"id"\s*:\s*${ID}\s*\}\s*$`);

/** Whose answer a line is that cannot be read whole, as far as its ends tell. The server says so, of its own connection only. */
export function answeredId({ head, tail }: Pick<LongLine, "head" | "tail">): string | number | undefined {
  const begin = head.toString("latin1");
  const found =
    BEGINS_WITH_ID.exec(begin) ??
    (BEGINS_AS_ANSWER.test(begin) ? ENDS_WITH_ID.exec(tail.toString("latin1")) : undefined);
  return found?.[1] === undefined ? undefined : (JSON.parse(found[1]) as string | number);
}

/** The ends of a line that is there as a whole. */
export const endsOf = (line: Buffer): Pick<LongLine, "head" | "tail"> => ({
  head: line.subarray(0, END_BYTES),
  tail: line.subarray(-END_BYTES),
});
