// The body of a response that its client may read slowly or not at all. What has not been read is counted against the caller's quota, and
// a client that reads nothing for too long loses the response. A server of node:http takes parts only as fast as its client reads them.
import type { Exceeded } from "./caller-quota.ts";

/** Bytes that are handed over at once; a stalled connection holds not much more outside of the quota. */
export const PART_BYTES = 64 * 1_024;

export interface BodyOwner {
  /** Takes bytes of the caller's quota; returns the limit that they exceed. */
  take(bytes: number): Exceeded | undefined;
  give(bytes: number): void;
  /** Called once, when nothing more of the body will be read. */
  ended(outcome: "read" | "aborted"): void;
}

/** Why a response was aborted. A server may show it in its log, so it has no stack of this process. */
class ResponseAbortedError extends Error {
  override name = "ResponseAbortedError";

  constructor(message: string) {
    super(message);
    this.stack = `${this.name}: ${message}`;
  }
}

export class BoundedBody {
  /** Read by the server that sends the response. */
  readonly stream: ReadableStream<Uint8Array>;
  readonly #owner: BodyOwner;
  readonly #unreadMs: number;
  readonly #parts: Uint8Array[] = [];
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #unread = 0;
  /** Nothing more arrives. */
  #isComplete = false;
  #isEnded = false;
  #onChange: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(owner: BodyOwner, unreadMs: number) {
    this.#owner = owner;
    this.#unreadMs = unreadMs;
    this.stream = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: async (controller) => await this.#pull(controller),
        cancel: () => this.#end("aborted"),
      },
      { highWaterMark: 0 },
    );
  }

  /** Adds bytes that are complete. Returns the limit that they exceed, having added nothing. */
  addAll(bytes: Uint8Array): Exceeded | undefined {
    const exceeded = this.#add(bytes);
    if (exceeded === undefined) this.#complete();
    return exceeded;
  }

  /** Adds what a stream brings, as fast as it comes, until it ends; aborts when that exceeds a limit. */
  addFrom(source: ReadableStream<Uint8Array>): void {
    const reader = source.getReader();
    this.#reader = reader;
    const next = async (): Promise<void> => {
      for (;;) {
        const { done, value } = await reader.read();
        if (this.#isEnded) return;
        if (done) return this.#complete();
        if (this.#add(value) !== undefined) return this.abort("too many bytes of responses are unread");
      }
    };
    next().catch(() => this.abort("its source failed"));
  }

  /** Ends the stream after what has arrived so far. */
  close(): void {
    if (this.#isEnded || this.#isComplete) return;
    this.#leaveSource();
    this.#complete();
  }

  /** Breaks the stream off: the client sees that its response is incomplete. */
  abort(reason: string): void {
    if (this.#isEnded) return;
    this.#controller?.error(new ResponseAbortedError(`Response aborted: ${reason}`));
    this.#end("aborted");
  }

  /** Ends the stream for a client that has left: nothing of it is sent, and a server has no error to log. */
  leave(): void {
    if (this.#isEnded) return;
    this.#controller?.close();
    this.#end("aborted");
  }

  #add(bytes: Uint8Array): Exceeded | undefined {
    const exceeded = this.#owner.take(bytes.byteLength);
    if (exceeded !== undefined) return exceeded;
    this.#unread += bytes.byteLength;
    // Copies: a view would keep all of a large message until its last part has been read.
    for (let at = 0; at < bytes.byteLength; at += PART_BYTES) this.#parts.push(bytes.slice(at, at + PART_BYTES));
    this.#startTimer();
    this.#onChange?.();
    return undefined;
  }

  #complete(): void {
    this.#isComplete = true;
    // The end of the stream is unread too.
    this.#startTimer();
    this.#onChange?.();
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    // The client has read everything, and waits for more.
    if (this.#unread === 0 && !this.#isComplete) this.#stopTimer();
    while (this.#parts.length === 0 && !this.#isComplete && !this.#isEnded) {
      await new Promise<void>((resolve) => {
        this.#onChange = resolve;
      });
    }
    this.#onChange = undefined;
    if (this.#isEnded) return;
    const part = this.#parts.shift();
    if (part === undefined) {
      controller.close();
      return this.#end("read");
    }
    this.#unread -= part.byteLength;
    this.#owner.give(part.byteLength);
    // Also after the last part: a server asks for more only when its client has read enough of what was handed over.
    this.#startTimer();
    this.#timer?.refresh();
    controller.enqueue(part);
  }

  /** Without effect while the timer runs. */
  #startTimer(): void {
    if (this.#isEnded) return;
    this.#timer ??= setTimeout(() => this.abort(`unread for ${this.#unreadMs} ms`), this.#unreadMs).unref();
  }

  #stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #end(outcome: "read" | "aborted"): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#stopTimer();
    this.#owner.give(this.#unread);
    this.#unread = 0;
    this.#parts.length = 0;
    this.#leaveSource();
    this.#onChange?.();
    this.#owner.ended(outcome);
  }

  #leaveSource(): void {
    const reader = this.#reader;
    this.#reader = undefined;
    reader?.cancel().catch(() => {});
  }
}
