// Implements a response body for clients that may read slowly or not at all. Unread bytes count against the caller's quota, and the
// response is aborted if the client reads nothing for too long. A `node:http` server pulls parts only as fast as its client reads them.
import type { Exceeded } from "./caller-quota.ts";

/** Largest part in bytes that is passed to the HTTP server. A stalled connection buffers little more than that outside of the quota. */
export const PART_BYTES = 64 * 1_024;

export interface BodyOwner {
  /** Takes bytes from the caller's quota. Returns the limit that they exceed, in which case nothing is taken. */
  take(bytes: number): Exceeded | undefined;
  give(bytes: number): void;
  /** Called once, when nothing more of the body will be read. */
  ended(outcome: "read" | "aborted"): void;
}

/** The reason why a response was aborted. HTTP servers may log it, so it has no internal stack. */
class ResponseAbortedError extends Error {
  override name = "ResponseAbortedError";

  constructor(message: string) {
    super(message);
    this.stack = `${this.name}: ${message}`;
  }
}

export class BoundedBody {
  /** The stream that the HTTP server reads. */
  readonly stream: ReadableStream<Uint8Array>;
  readonly #owner: BodyOwner;
  readonly #unreadMs: number;
  readonly #parts: Uint8Array[] = [];
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #unread = 0;
  /** Whether all bytes have been added. */
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

  /** Adds the whole body. Returns the limit that it exceeds, in which case nothing is added. */
  addAll(bytes: Uint8Array): Exceeded | undefined {
    const exceeded = this.#add(bytes);
    if (exceeded === undefined) this.#complete();
    return exceeded;
  }

  /** Adds the parts of a stream as they arrive, until it ends. Aborts when they exceed a limit. */
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

  /** Ends the stream after the bytes that were added so far. */
  close(): void {
    if (this.#isEnded || this.#isComplete) return;
    this.#cancelSource();
    this.#complete();
  }

  /** Ends the stream with an error, so that the client sees that its response is incomplete. */
  abort(reason: string): void {
    if (this.#isEnded) return;
    this.#controller?.error(new ResponseAbortedError(`Response aborted: ${reason}`));
    this.#end("aborted");
  }

  /** Ends the stream of a client that has disconnected, without an error for the HTTP server to log. */
  discard(): void {
    if (this.#isEnded) return;
    this.#controller?.close();
    this.#end("aborted");
  }

  #add(bytes: Uint8Array): Exceeded | undefined {
    const exceeded = this.#owner.take(bytes.byteLength);
    if (exceeded !== undefined) return exceeded;
    this.#unread += bytes.byteLength;
    // Copies the parts: a view would keep all of a large message in memory until its last part was read.
    for (let at = 0; at < bytes.byteLength; at += PART_BYTES) this.#parts.push(bytes.slice(at, at + PART_BYTES));
    this.#startTimer();
    this.#onChange?.();
    return undefined;
  }

  #complete(): void {
    this.#isComplete = true;
    // The client must also read the end of the stream.
    this.#startTimer();
    this.#onChange?.();
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    // The client has read everything and waits for more.
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
    // Also runs after the last part: the HTTP server pulls again only when its client has read enough of the parts that it got.
    this.#startTimer();
    this.#timer?.refresh();
    controller.enqueue(part);
  }

  /** Starts the timer, if it does not run yet. */
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
    this.#cancelSource();
    this.#onChange?.();
    this.#owner.ended(outcome);
  }

  #cancelSource(): void {
    const reader = this.#reader;
    this.#reader = undefined;
    reader?.cancel().catch(() => {});
  }
}
