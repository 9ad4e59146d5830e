// Parses an event stream (HTML, "interpreting an event stream"), which may be cut anywhere into pieces of text.

export interface StreamedEvent {
  readonly type: string;
  readonly data: string;
  readonly lastEventId: string;
}

const LINE_END = /\r\n|\n|\r/g;

export class EventStreamParser {
  /** The beginning of a line that has not ended yet. */
  #line = "";
  /** The last piece ended with a carriage return: a line feed that follows belongs to it. */
  #endsWithReturn = false;
  #type = "";
  #data: string[] = [];
  #idBuffer: string;
  #lastEventId: string;
  #retryMs: number | undefined;

  /** @param lastEventId of the connection before this one */
  constructor(lastEventId = "") {
    this.#idBuffer = lastEventId;
    this.#lastEventId = lastEventId;
  }

  /** For the next connection: the id as it was at the last blank line. */
  get lastEventId(): string {
    return this.#lastEventId;
  }

  /** What the stream says last of the time to wait before the next connection, in ms. */
  get retryMs(): number | undefined {
    return this.#retryMs;
  }

  /** Returns the events that are whole with this text. What is left at the stream's end is no event. */
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
    else if (field === "data") this.#data.push(value);
    else if (field === "id") {
      if (!value.includes("\0")) this.#idBuffer = value;
    } else if (field === "retry" && /^[0-9]+$/.test(value)) this.#retryMs = Number(value);
  }

  #dispatch(): StreamedEvent | undefined {
    const type = this.#type;
    const data = this.#data;
    this.#type = "";
    this.#data = [];
    this.#lastEventId = this.#idBuffer;
    if (data.length === 0) return undefined;
    return { type: type === "" ? "message" : type, data: data.join("\n"), lastEventId: this.#lastEventId };
  }
}
