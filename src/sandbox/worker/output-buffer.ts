// Buffers the chunks of a streaming tool in the worker: enforces the output limit and sends the chunks of one event-loop turn in one frame.
import type { Limits } from "../contract/limits.ts";
import type { GuestBytes } from "./isolate/guest-call.ts";

type SendParts = (parts: readonly (string | Uint8Array)[]) => void;

export class OutputBuffer {
  readonly #send: SendParts;
  readonly #limits: Pick<Limits, "outputBytes" | "jsonValues">;
  #lines: string[] = [];
  #bytes = 0;
  #count = 0;
  #isClosed = false;

  constructor(limits: Pick<Limits, "outputBytes" | "jsonValues">, send: SendParts) {
    this.#limits = limits;
    this.#send = send;
  }

  /** Total size of all added chunks in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds a chunk. Returns false and drops it if the chunks together exceed the output limits. */
  add(text: string, bytes: GuestBytes | undefined): boolean {
    this.#bytes += Buffer.byteLength(text) + (bytes?.data.byteLength ?? 0);
    this.#count += 1;
    if (this.#bytes > this.#limits.outputBytes || this.#count > this.#limits.jsonValues) return false;
    if (bytes !== undefined) {
      this.flush();
      this.#send([text, bytes.header, bytes.data]);
    } else if (this.#lines.push(text) === 1) setImmediate(() => this.flush());
    return true;
  }

  /** Sends the buffered chunks. Must be called before any other message of the call, to keep the order. */
  flush(): void {
    if (this.#lines.length === 0 || this.#isClosed) return;
    const lines = this.#lines;
    this.#lines = [];
    this.#send([lines.join("\n")]);
  }

  /** Sends the buffered chunks and drops later ones. */
  close(): void {
    this.flush();
    this.#isClosed = true;
  }
}
