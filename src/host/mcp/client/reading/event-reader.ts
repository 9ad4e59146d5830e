// Reads server-sent events (HTML standard, "Server-sent events") from bytes: each event within a size, and nothing of it parsed yet.
import { BoundedBytes, type LongMessage } from "./bounded-bytes.ts";
import { LineReader } from "./line-reader.ts";

/** Field names and what may stand before an event's data on its line. */
const FIELD_BYTES = 64;
const MAX_ID_BYTES = 1_024;
const COLON = 58;
const SPACE = 32;
const LINE_FEED = Buffer.from("\n");
const DATA = Buffer.from("data");

export interface ServerEvent {
  readonly data: Buffer | LongMessage;
  /** Without it, the event is not one to resume from. */
  readonly id: string | undefined;
  /** `message` where the stream names none. */
  readonly name: string;
}

export class EventReader {
  readonly #lines: LineReader;
  readonly #data: BoundedBytes;
  #hasData = false;
  #id: string | undefined;
  #name = "";
  /** How long the server wants its client to wait before it connects again, in ms. */
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

  /** Yields for each line that ends in this piece: the event that ends with it, or undefined. */
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
    // A comment, or an unknown field.
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

  /** A line past the limit: of its data, what is left tells whose answer it is. */
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
