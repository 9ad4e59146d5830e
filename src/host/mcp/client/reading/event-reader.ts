// Reads server-sent events (HTML standard, "Server-sent events") from bytes, with a size limit for each event. It does not parse their data.
import { BoundedBytes, type LongMessage } from "./bounded-bytes.ts";
import { LineReader } from "./line-reader.ts";

/** Largest size of a field name, and of the bytes before the data on a line. */
const FIELD_BYTES = 64;
const MAX_ID_BYTES = 1_024;
const COLON = 58;
const SPACE = 32;
const LINE_FEED = Buffer.from("\n");
const DATA = Buffer.from("data");

export interface ServerEvent {
  readonly data: Buffer | LongMessage;
  /** Undefined if a stream cannot be resumed after this event. */
  readonly id: string | undefined;
  /** Default: `message`. */
  readonly name: string;
}

export class EventReader {
  readonly #lines: LineReader;
  readonly #data: BoundedBytes;
  #hasData = false;
  #id: string | undefined;
  #name = "";
  /** Time in ms that the server wants its client to wait before reconnecting. */
  retryMs: number | undefined;

  /** @param maxBytes limit for the data of one event */
  constructor(maxBytes: number) {
    this.#lines = new LineReader({ maxBytes: maxBytes + FIELD_BYTES, endsAtReturn: true });
    this.#data = new BoundedBytes(maxBytes);
  }

  /** Bytes of the line that has not ended yet. */
  get openBytes(): number {
    return this.#lines.openBytes;
  }

  /** Yields a value for each line that ends in this piece: the event that the line completes, or undefined. */
  *read(piece: Buffer): Generator<ServerEvent | undefined, void> {
    for (const line of this.#lines.read(piece)) {
      if (!("head" in line)) yield line.length === 0 ? this.#end() : this.#take(line);
      else {
        this.#takeLong(line);
        yield undefined;
      }
    }
  }

  #take(line: Buffer): undefined {
    const colon = line.indexOf(COLON);
    const field = line.subarray(0, colon < 0 ? line.length : colon);
    // The line is a comment or an unknown field.
    if (field.length === 0 || field.length > FIELD_BYTES) return;
    const from = colon < 0 ? line.length : colon + (line[colon + 1] === SPACE ? 2 : 1);
    const value = line.subarray(from);
    if (field.equals(DATA)) return this.#addData(value);
    const text = value.subarray(0, MAX_ID_BYTES + 1).toString("utf8");
    switch (field.toString("latin1")) {
      case "id":
        if (value.length <= MAX_ID_BYTES && !text.includes("\0")) this.#id = text;
        break;
      case "event":
        this.#name = text;
        break;
      case "retry":
        if (/^\d{1,9}$/.test(text)) this.retryMs = Number(text);
    }
  }

  #addData(value: Buffer): undefined {
    if (this.#hasData) this.#data.add(LINE_FEED);
    this.#hasData = true;
    this.#data.add(value);
  }

  /** Adds the ends of a line that exceeds the limit, from which the id of the answered request can be read. */
  #takeLong({ bytes, head, tail }: LongMessage): void {
    const isData = head.subarray(0, DATA.length).equals(DATA) && head[DATA.length] === COLON;
    if (!isData) return;
    this.#hasData = true;
    const from = DATA.length + (head[DATA.length + 1] === SPACE ? 2 : 1);
    this.#data.addLong({ bytes: bytes - from, head: head.subarray(from), tail });
  }

  #end(): ServerEvent | undefined {
    const data = this.#data.take();
    const event = { data, id: this.#id, name: this.#name === "" ? "message" : this.#name };
    const hasData = this.#hasData;
    this.#hasData = false;
    this.#id = undefined;
    this.#name = "";
    return hasData ? event : undefined;
  }
}
