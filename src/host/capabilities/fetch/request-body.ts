// The body of a tool's request: decodes it from base64, counts its bytes, and inserts the values of secrets. A streamed body is written as
// fast as the network accepts it.
import { PassThrough } from "node:stream";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { filteredParts, type StreamFilter, type Turns } from "../../observability/redaction/stream-filter.ts";
import { runTimeSliced } from "../../util/time-slicing.ts";

/** @throws {ToolError} QUOTA_EXCEEDED */
export function checkRequestBytes(bytes: number, max: number): void {
  if (bytes <= max) return;
  const what = "The request's body, with the values of secrets in it, has more than";
  throw new ToolError("QUOTA_EXCEEDED", `${what} ${max} bytes (egress.requestBytes)`);
}

/** Characters to decode in one step: about 0.3 ms. A multiple of four, so that no byte is split. */
const BASE64_STEP = 256 * 1024;
const PADDED_BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const BASE64 = /^[A-Za-z0-9+/]*$/;

/**
 * Decodes the base64 of a body: a short one at once, a long one over several turns of the event loop.
 * @throws {ToolError} PARAM_INVALID, QUOTA_EXCEEDED for more than `most` bytes, before anything is decoded
 */
export async function fromBase64(text: string, max: number, { signal, cpuAccount }: Turns): Promise<Buffer> {
  if (text.length % 4 !== 0) throw new ToolError("PARAM_INVALID", "Expected base64");
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const size = (text.length / 4) * 3 - padding;
  checkRequestBytes(size, max);
  // Not filled with zeros: touching the memory of a large body for the first time takes long, and each turn is to touch a part of it.
  const decoded = Buffer.allocUnsafeSlow(size);
  let at = 0;
  let filled = 0;
  const step = (): boolean => {
    const end = Math.min(at + BASE64_STEP, text.length);
    const part = text.slice(at, end);
    at = end;
    const isLast = at === text.length;
    if (!(isLast ? PADDED_BASE64 : BASE64).test(part)) throw new ToolError("PARAM_INVALID", "Expected base64");
    filled += decoded.write(part, filled, "base64");
    return isLast;
  };
  if (text.length <= BASE64_STEP) step();
  else await runTimeSliced(step, signal, cpuAccount);
  if (filled !== size) throw new ToolError("PARAM_INVALID", "Expected base64");
  return decoded;
}

/** Bytes of a streamed body that are buffered before `write` waits. */
const BUFFERED_BYTES = 64 * 1024;

/** A streamed body, which the tool writes while it is being sent. */
export class Upload {
  readonly stream: PassThrough = new PassThrough({ highWaterMark: BUFFERED_BYTES });
  readonly #filler: StreamFilter;
  readonly #maxBytes: number;
  readonly #turns: Turns;
  #written = 0;
  #sent = 0;
  #last: Promise<void> = Promise.resolve();

  /** @param maxBytes limit for the bytes that the tool writes, and for the bytes that are sent after secrets are inserted */
  constructor(filler: StreamFilter, maxBytes: number, turns: Turns) {
    this.#filler = filler;
    this.#maxBytes = maxBytes;
    this.#turns = turns;
    // The exchange reports failures. A stream that is destroyed early must not emit an unhandled error.
    this.stream.on("error", () => {});
  }

  /**
   * Writes a part. Resolves when the stream can accept more, or is closed.
   * @throws {ToolError} PARAM_INVALID, QUOTA_EXCEEDED, CAPABILITY_DENIED
   */
  write(base64: string): Promise<void> {
    return this.#inOrder(async () => {
      const chunk = await fromBase64(base64, this.#maxBytes, this.#turns);
      this.#written += chunk.length;
      checkRequestBytes(this.#written, this.#maxBytes);
      if (this.#filler.isIdle) return await this.#put(chunk);
      await this.#putAll(this.#filler.steps(chunk));
    });
  }

  end(): Promise<void> {
    return this.#inOrder(async () => {
      if (!this.#filler.isIdle) await this.#putAll(this.#filler.lastSteps());
      this.stream.end();
    });
  }

  /** Writes part by part, so that secrets are inserted only as fast as the network accepts data. */
  async #putAll(steps: Iterator<Buffer, void>): Promise<void> {
    for await (const part of filteredParts(steps, this.#turns)) {
      if (!this.stream.writable) return;
      this.#sent += part.length;
      checkRequestBytes(this.#sent, this.#maxBytes);
      await this.#put(part);
    }
  }

  /** Runs writes one after another. A tool may write again without waiting; parts are sent in the order of the calls. */
  #inOrder(write: () => Promise<void>): Promise<void> {
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
