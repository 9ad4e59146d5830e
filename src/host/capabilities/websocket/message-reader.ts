// Converts received WebSocket frames to messages for the tool: redacts secrets and decodes text, part by part.
import type { Redactor } from "../../observability/redaction/call-redactor.ts";
import { filterBytes, type StreamFilter, type Turns } from "../../observability/redaction/stream-filter.ts";
import { CLOSE_CODES, type WebSocketFrame, WebSocketFrameError } from "./frames.ts";

type DataFrame = Extract<WebSocketFrame, { readonly kind: "data" }>;

/** A part of a message, as the tool receives it. */
export type WireMessage = ({ readonly text: string } | { readonly base64: string }) & { readonly isLast: boolean };

export class MessageReader {
  readonly #redactor: Redactor;
  readonly #turns: Turns;
  /** Filter of the current message; undefined between messages, and if the call has no secrets. */
  #filter: StreamFilter | undefined;
  #decoder: TextDecoder | undefined;

  constructor(redactor: Redactor, turns: Turns) {
    this.#redactor = redactor;
    this.#turns = turns;
  }

  /** Converts the parts. If a text is not valid UTF-8, returns the earlier parts and the violation. */
  async toWire(
    parts: readonly DataFrame[],
  ): Promise<{ readonly messages: readonly WireMessage[]; readonly violation?: WebSocketFrameError }> {
    const messages: WireMessage[] = [];
    for (const part of parts) {
      try {
        messages.push(await this.#part(part));
      } catch (thrown) {
        if (thrown instanceof WebSocketFrameError) return { messages, violation: thrown };
        throw thrown;
      }
    }
    return { messages };
  }

  async #part({ isText, isLast, bytes }: DataFrame): Promise<WireMessage> {
    const shown = this.#redactor.isEmpty ? bytes : await this.#redacted(bytes, isLast);
    if (!isText) return { base64: shown.toString("base64"), isLast };
    this.#decoder ??= new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    try {
      return { text: this.#decoder.decode(shown, { stream: !isLast }), isLast };
    } catch {
      throw new WebSocketFrameError("a text message is not UTF-8", CLOSE_CODES.invalidData);
    } finally {
      if (isLast) this.#decoder = undefined;
    }
  }

  async #redacted(bytes: Buffer, isLast: boolean): Promise<Buffer> {
    this.#filter ??= this.#redactor.filter();
    const filter = this.#filter;
    const shown = await filterBytes(filter, bytes, this.#turns);
    if (!isLast) return shown;
    this.#filter = undefined;
    return Buffer.concat([shown, filter.end()]);
  }
}
