// Converts messages of a tool to WebSocket frames: counts their bytes, and replaces placeholders with the values of secrets.
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { filteredParts, StreamFilter, type Turns } from "../../observability/redaction/stream-filter.ts";
import { fromBase64 } from "../fetch/request-body.ts";
import type { CallSecrets, SecretEncoding } from "../fetch/secrets.ts";
import { encodeWebSocketFrame, OPCODES } from "./frames.ts";

/** A part of a message. All parts of a message are text, or all are bytes. */
export interface MessagePart {
  readonly data: { readonly text: string } | { readonly base64: string };
  readonly isLast: boolean;
}

export interface MessageWriterOptions {
  readonly secrets: CallSecrets;
  readonly url: URL;
  /** Longest message in bytes, both as the tool writes it and with secrets inserted. */
  readonly maxBytes: number;
  readonly turns: Turns;
}

interface Message {
  readonly isText: boolean;
  /** Undefined if the call has no placeholders. */
  readonly filter: StreamFilter | undefined;
  /** Bytes that the tool has written. */
  written: number;
  /** Bytes with secrets inserted. */
  sent: number;
  /** The last part, kept until the next one arrives: the last frame of a message must have its FIN bit set. */
  pending: Buffer | undefined;
  hasBegun: boolean;
}

/** Returns the encoding of secrets in a text message. Most messages are JSON, which shows at their start. */
const encodingOf = (text: string): SecretEncoding => (/^\s*[[{"]/.test(text) ? "json" : "plain");

export class MessageWriter {
  readonly #options: MessageWriterOptions;
  #message: Message | undefined;

  constructor(options: MessageWriterOptions) {
    this.#options = options;
  }

  /**
   * Yields the frames of a part.
   * @throws {ToolError} PARAM_INVALID, QUOTA_EXCEEDED, CAPABILITY_DENIED for a secret that is not bound to the server
   */
  async *frames({ data, isLast }: MessagePart): AsyncGenerator<Buffer> {
    const { maxBytes, turns } = this.#options;
    const message = this.#message ?? this.#begin(data);
    this.#message = message;
    if (message.isText !== "text" in data) throw new ToolError("PARAM_INVALID", "A message is either text or bytes");
    const bytes = "text" in data ? Buffer.from(data.text) : await fromBase64(data.base64, maxBytes, turns);
    message.written += bytes.length;
    this.#check(message.written);
    if (message.filter === undefined) yield* this.#put(message, bytes);
    else {
      for await (const part of filteredParts(message.filter.steps(bytes), turns)) yield* this.#put(message, part);
      if (isLast) {
        for await (const part of filteredParts(message.filter.lastSteps(), turns)) yield* this.#put(message, part);
      }
    }
    if (!isLast) return;
    this.#message = undefined;
    yield this.#frame(message, message.pending ?? Buffer.alloc(0), true);
  }

  #begin(data: MessagePart["data"]): Message {
    const { secrets, url } = this.#options;
    const isText = "text" in data;
    const filter = secrets.placeholders.isEmpty
      ? undefined
      : new StreamFilter(secrets.replacements(url, isText ? encodingOf(data.text) : "plain"));
    return { isText, filter, written: 0, sent: 0, pending: undefined, hasBegun: false };
  }

  *#put(message: Message, bytes: Buffer): Generator<Buffer> {
    message.sent += bytes.length;
    this.#check(message.sent);
    if (message.pending !== undefined && message.pending.length > 0) yield this.#frame(message, message.pending, false);
    message.pending = bytes;
  }

  #frame(message: Message, bytes: Buffer, isLast: boolean): Buffer {
    const first = message.isText ? OPCODES.text : OPCODES.binary;
    const opcode = message.hasBegun ? OPCODES.continuation : first;
    message.hasBegun = true;
    return encodeWebSocketFrame(opcode, bytes, isLast);
  }

  #check(bytes: number): void {
    const { maxBytes } = this.#options;
    if (bytes <= maxBytes) return;
    const what = "A sent message, with the values of secrets in it, has more than";
    throw new ToolError("QUOTA_EXCEEDED", `${what} ${maxBytes} bytes (egress.requestBytes)`);
  }
}
