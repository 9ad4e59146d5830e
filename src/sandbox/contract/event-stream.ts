// Parses an event stream (HTML, "interpreting an event stream"). Its text may arrive in pieces of any length. Imports nothing, because the client
// of browsers uses it too.

export interface StreamedEvent {
  readonly type: string;
  readonly data: string;
  readonly lastEventId: string;
}

/** Longest delay of a timer. A longer one would end at once, and the client would connect again without a pause. */
const MAX_RETRY_MS = 2 ** 31 - 1;
const LINE_END = /\r\n|\n|\r/g;

export class EventStreamParser {
  /** Start of a line whose end has not arrived. */
  #line = "";
  /** True if the last piece ended with a carriage return. A following line feed belongs to the same line end. */
  #endsWithReturn = false;
  #type = "";
  #data: string[] = [];
  /** Length of the lines in `#data`. */
  #dataLength = 0;
  #idBuffer: string;
  #lastEventId: string;
  #retryMs: number | undefined;

  /** @param lastEventId last event id of the previous connection */
  constructor(lastEventId = "") {
    this.#idBuffer = lastEventId;
    this.#lastEventId = lastEventId;
  }

  /** Event id for the next connection: its value at the last blank line. */
  get lastEventId(): string {
    return this.#lastEventId;
  }

  /** Delay in ms before the next connection, as last set by the stream: at most that of a timer, 2,147,483,647. */
  get retryMs(): number | undefined {
    return this.#retryMs;
  }

  /** Length of the text that is kept for an event that is not complete, in UTF-16 code units. */
  get pendingLength(): number {
    return this.#line.length + this.#dataLength;
  }

  /** Returns the events that this text completes. An incomplete event at the end of the stream is dropped. */
  push(text: string): StreamedEvent[] {
    if (text === "") return [];
    const events: StreamedEvent[] = [];
    let from = this.#endsWithReturn && text.startsWith("\n") ? 1 : 0;
    this.#endsWithReturn = text.endsWith("\r");
    LINE_END.lastIndex = from;
    for (let end = LINE_END.exec(text); end !== null; end = LINE_END.exec(text)) {
      const line = this.#line + text.slice(from, end.index);
      this.#line = "";
      from = LINE_END.lastIndex;
      const event = this.#read(line);
      if (event !== undefined) events.push(event);
    }
    this.#line += text.slice(from);
    return events;
  }

  #read(line: string): StreamedEvent | undefined {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return undefined;
    const field = colon < 0 ? line : line.slice(0, colon);
    const rest = colon < 0 ? "" : line.slice(colon + 1);
    this.#set(field, rest.startsWith(" ") ? rest.slice(1) : rest);
    return undefined;
  }

  #set(field: string, value: string): void {
    if (field === "event") this.#type = value;
    else if (field === "data") {
      this.#data.push(value);
      // With the line end that joins it to the next one, so that empty lines count too.
      this.#dataLength += value.length + 1;
    } else if (field === "id") {
      if (!value.includes("\0")) this.#idBuffer = value;
    } else if (field === "retry" && /^[0-9]+$/.test(value)) {
      this.#retryMs = Math.min(Number(value), MAX_RETRY_MS);
    }
  }

  #dispatch(): StreamedEvent | undefined {
    const type = this.#type;
    const data = this.#data;
    this.#type = "";
    this.#data = [];
    this.#dataLength = 0;
    this.#lastEventId = this.#idBuffer;
    if (data.length === 0) return undefined;
    return { type: type === "" ? "message" : type, data: data.join("\n"), lastEventId: this.#lastEventId };
  }
}
