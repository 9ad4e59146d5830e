// The body of a tool's request: whole, or in parts that wait until the network takes them; counted, with secrets put in.
import { PassThrough } from "node:stream";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { filteredParts, type StreamFilter, type Turns } from "../../observability/redaction/stream-filter.ts";
import { runTimeSliced } from "../../util/time-slicing.ts";

/** @throws {ToolError} QUOTA_EXCEEDED */
export function checkRequestBytes(bytes: number, most: number): void {
  if (bytes <= most) return;
  const what = "The request's body, with the values of secrets in it, has more than";
  throw new ToolError("QUOTA_EXCEEDED", `${what} ${most} bytes (egress.requestBytes)`);
}

/** Characters that are decoded in one step: about 0.3 ms. A multiple of four, so that no byte is split. */
const BASE64_STEP = 256 * 1024;
const PADDED_BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const BASE64 = /^[A-Za-z0-9+/]*$/;

/**
 * Decodes the base64 of a body: a short one at once, a long one over several turns of the event loop.
 * @throws {ToolError} PARAM_INVALID, QUOTA_EXCEEDED for more than `most` bytes, before anything is decoded
 */
export async function fromBase64(text: string, most: number, { signal, payer }: Turns): Promise<Buffer> {
  if (text.length % 4 !== 0) throw new ToolError("PARAM_INVALID", "Expected base64");
  checkRequestBytes((text.length / 4) * 3 - 2, most);
  const parts: Buffer[] = [];
  let at = 0;
  const step = (): boolean => {
    const end = Math.min(at + BASE64_STEP, text.length);
    const part = text.slice(at, end);
    at = end;
    const isLast = at === text.length;
    if (!(isLast ? PADDED_BASE64 : BASE64).test(part)) throw new ToolError("PARAM_INVALID", "Expected base64");
    parts.push(Buffer.from(part, "base64"));
    return isLast;
  };
  if (text.length <= BASE64_STEP) step();
  else await runTimeSliced(step, signal, payer);
  const [only = Buffer.alloc(0)] = parts;
  const decoded = parts.length < 2 ? only : Buffer.concat(parts);
  checkRequestBytes(decoded.length, most);
  return decoded;
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

  /**
   * Resolves when there is room for more, or nobody wants it.
   * @throws {ToolError} PARAM_INVALID, QUOTA_EXCEEDED, CAPABILITY_DENIED
   */
  write(base64: string): Promise<void> {
    return this.#inTurn(async () => {
      const chunk = await fromBase64(base64, this.#maxBytes, this.#turns);
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
