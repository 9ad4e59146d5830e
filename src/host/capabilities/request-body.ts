// The body of a tool's request: whole, or in parts that wait until the network takes them; counted, with secrets put in.
import { PassThrough } from "node:stream";
import { ToolError } from "../../sandbox/errors.ts";
import { filteredParts, type StreamFilter, type Turns } from "../redaction/stream-filter.ts";

/** @throws {ToolError} QUOTA_EXCEEDED */
export function checkRequestBytes(bytes: number, most: number): void {
  if (bytes <= most) return;
  const what = "The request's body, with the values of secrets in it, has more than";
  throw new ToolError("QUOTA_EXCEEDED", `${what} ${most} bytes (egress.requestBytes)`);
}

/** @throws {ToolError} PARAM_INVALID */
export function fromBase64(text: string): Buffer {
  if (/[^A-Za-z0-9+/=]/.test(text)) throw new ToolError("PARAM_INVALID", "Expected base64");
  return Buffer.from(text, "base64");
}

/** Of a body that comes in parts. */
const BUFFERED_BYTES = 64 * 1024;

/** A body that the tool writes while it is sent. */
export class Upload {
  readonly stream: PassThrough = new PassThrough({ highWaterMark: BUFFERED_BYTES });
  readonly #filler: StreamFilter;
  readonly #maxBytes: number;
  readonly #turns: Turns;
  #written = 0;
  #sent = 0;
  #last: Promise<void> = Promise.resolve();

  /** @param maxBytes of what the tool writes, and of what is sent in its place */
  constructor(filler: StreamFilter, maxBytes: number, turns: Turns) {
    this.#filler = filler;
    this.#maxBytes = maxBytes;
    this.#turns = turns;
    // The exchange reports how it ended; a stream that is destroyed early is no error.
    this.stream.on("error", () => {});
  }

  /** Resolves when there is room for more, or nobody wants it. @throws {ToolError} QUOTA_EXCEEDED, CAPABILITY_DENIED */
  write(chunk: Buffer): Promise<void> {
    return this.#inTurn(async () => {
      this.#written += chunk.length;
      checkRequestBytes(this.#written, this.#maxBytes);
      if (this.#filler.isIdle) return await this.#put(chunk);
      await this.#putAll(this.#filler.steps(chunk));
    });
  }

  end(): Promise<void> {
    return this.#inTurn(async () => {
      if (!this.#filler.isIdle) await this.#putAll(this.#filler.lastSteps());
      this.stream.end();
    });
  }

  /** Part by part, so that no more is filled than the network takes. */
  async #putAll(steps: Iterator<Buffer, void>): Promise<void> {
    for await (const part of filteredParts(steps, this.#turns)) {
      if (!this.stream.writable) return;
      this.#sent += part.length;
      checkRequestBytes(this.#sent, this.#maxBytes);
      await this.#put(part);
    }
  }

  /** A tool need not wait before it writes again: parts leave in the order in which they came. */
  #inTurn(write: () => Promise<void>): Promise<void> {
    const writing = this.#last.then(write);
    this.#last = writing.catch(() => {});
    return writing;
  }

  async #put(bytes: Buffer): Promise<void> {
    if (!this.stream.writable || this.stream.write(bytes)) return;
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        for (const event of ["drain", "close", "error"]) this.stream.off(event, settle);
        resolve();
      };
      for (const event of ["drain", "close", "error"]) this.stream.once(event, settle);
    });
  }
}
