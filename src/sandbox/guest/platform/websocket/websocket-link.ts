// The guest's end of one WebSocket: requests the connection and its messages from the host, and sends messages in pieces. Each event is
// dispatched in a separate task, as the standard requires.
import type { FetchChannel } from "../../fetch-channel.ts";
import { inContext, queueTask } from "../../timers.ts";
import { concat, fromBase64, toBase64 } from "../fetch/fetch-platform.ts";

/**
 * Characters or bytes per request to the host, which parses a piece of this size at once. A multiple of three, so that base64 needs no
 * padding.
 */
const PIECE_LENGTH = 63 * 1024;

export interface Close {
  readonly code: number;
  readonly reason: string;
  readonly wasClean: boolean;
}

type WireMessage = ({ readonly text: string } | { readonly base64: string }) & { readonly isLast: boolean };
interface Received {
  readonly messages: readonly WireMessage[];
  readonly closed?: Close;
}

export interface LinkListener {
  onOpen(protocol: string): void;
  onMessage(data: string | Uint8Array<ArrayBuffer>): void;
  /** Called when the host has accepted the bytes of one message. */
  onSent(bytes: number): void;
  onClose(close: Close): void;
  /** Called instead of `onClose`. */
  onFailure(error: unknown): void;
}

/** An outgoing message, or the closing handshake that follows all messages. */
type Outgoing =
  | { readonly data: string | Uint8Array; readonly bytes: number }
  | { readonly code: number | undefined; readonly reason: string };

const isHighSurrogate = (unit: number): boolean => (unit & 0xfc00) === 0xd800;

/** Returns the end of the piece that starts at `from`. It never splits a surrogate pair. */
function pieceEnd(data: string | Uint8Array, from: number): number {
  const to = Math.min(from + PIECE_LENGTH, data.length);
  return typeof data === "string" && to < data.length && isHighSurrogate(data.charCodeAt(to - 1)) ? to - 1 : to;
}

/** Returns a piece in the form in which it is sent to the host. */
function toWire(data: string | Uint8Array, from: number, to: number): object {
  return typeof data === "string" ? { text: data.slice(from, to) } : { base64: toBase64(data.subarray(from, to)) };
}

export class Link {
  readonly #channel: FetchChannel;
  readonly #listener: LinkListener;
  /** Runs a function as a task in the context in which the socket was created. */
  readonly #inTask: (run: () => void) => void;
  readonly #outgoing: Outgoing[] = [];
  #isSending = false;
  #isOver = false;
  /** Pieces of the message that is being received. */
  #texts: string[] = [];
  #parts: Uint8Array[] = [];

  constructor(channel: FetchChannel, listener: LinkListener) {
    this.#channel = channel;
    this.#listener = listener;
    const call = inContext((run: () => void) => run());
    this.#inTask = (run) => queueTask(() => call(run));
  }

  /** Connects, and receives until the connection ends. Never rejects. */
  async run(url: string, headers: readonly (readonly [string, string])[]): Promise<void> {
    try {
      const request = { op: "request", method: "GET", url, headers, body: null, redirect: "error", mode: "websocket" };
      const { protocol } = (await this.#request(request)) as { readonly protocol: string };
      await this.#runInTask(() => this.#listener.onOpen(protocol));
      await this.#receive();
    } catch (error) {
      this.fail(error);
    }
  }

  send(data: string | Uint8Array, bytes: number): void {
    this.#put({ data, bytes });
  }

  close(code: number | undefined, reason: string): void {
    // If the server does not read, the pending send may never complete.
    if (this.#isSending && !this.#isOver) this.#request({ op: "closing" }).catch(() => {});
    this.#put({ code, reason });
  }

  /** Ends the connection from this side, and calls `onFailure` in a task. */
  fail(error: unknown): void {
    if (this.#cancel()) this.#inTask(() => this.#listener.onFailure(error));
  }

  /** Closes the connection at once, discards unsent data, and calls `onClose` in a task. */
  terminate(close: Close): void {
    if (this.#cancel()) this.#inTask(() => this.#listener.onClose(close));
  }

  /** Returns false if the connection has already ended. */
  #cancel(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#outgoing.length = 0;
    this.#request({ op: "cancel" }).catch(() => {});
    return true;
  }

  #request(message: { readonly op: string; readonly [field: string]: unknown }): Promise<unknown> {
    return this.#channel.request({ ...message, id: this.#channel.id });
  }

  /** Resolves after the task and after the microtasks that its listeners have queued. */
  #runInTask(run: () => void): Promise<void> {
    return new Promise((resolve) => {
      this.#inTask(() => {
        resolve();
        if (!this.#isOver) run();
      });
    });
  }

  async #receive(): Promise<void> {
    while (!this.#isOver) {
      const { messages, closed } = (await this.#request({ op: "receive" })) as Received;
      for (const message of messages) {
        const data = this.#join(message);
        if (data !== undefined) await this.#runInTask(() => this.#listener.onMessage(data));
      }
      if (closed === undefined) continue;
      await this.#runInTask(() => {
        this.#isOver = true;
        this.#listener.onClose(closed);
      });
    }
  }

  /** Returns the message that this piece completes. */
  #join(part: WireMessage): string | Uint8Array<ArrayBuffer> | undefined {
    if ("text" in part) this.#texts.push(part.text);
    else this.#parts.push(fromBase64(part.base64));
    if (!part.isLast) return undefined;
    const data = "text" in part ? this.#texts.join("") : concat(this.#parts);
    this.#texts = [];
    this.#parts = [];
    return data;
  }

  #put(outgoing: Outgoing): void {
    this.#outgoing.push(outgoing);
    if (!this.#isSending) void this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    try {
      for (let next = this.#outgoing.shift(); next !== undefined && !this.#isOver; next = this.#outgoing.shift()) {
        if ("data" in next) {
          await this.#sendMessage(next.data);
          this.#listener.onSent(next.bytes);
        } else {
          const { code, reason } = next;
          await this.#request({ op: "close", ...(code === undefined ? {} : { code }), reason });
        }
      }
    } catch (error) {
      this.fail(error);
    } finally {
      this.#isSending = false;
    }
  }

  async #sendMessage(data: string | Uint8Array): Promise<void> {
    let from = 0;
    do {
      const to = pieceEnd(data, from);
      await this.#request({ op: "send", data: toWire(data, from, to), isLast: to === data.length });
      from = to;
    } while (from < data.length && !this.#isOver);
  }
}
