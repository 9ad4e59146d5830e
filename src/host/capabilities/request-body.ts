// The body of a tool's request: whole, or in parts that wait until the network takes them; counted, with secrets put in.
import { PassThrough } from "node:stream";
import { ToolError } from "../../sandbox/errors.ts";
import { filterBytes, type StreamFilter } from "../redaction/stream-filter.ts";
import { type HeaderList, headerOf } from "./request-headers.ts";
import type { CallSecrets, Writing } from "./secrets.ts";

/** How a secret is written into a body of this kind. */
export function writingOf(headers: HeaderList): Writing {
  const type = (headerOf(headers, "content-type") ?? "").toLowerCase();
  if (/^application\/(?:[\w.+-]+\+)?json\b|^text\/json\b/.test(type)) return "json";
  return type.startsWith("application/x-www-form-urlencoded") ? "url" : "plain";
}

/** @throws {ToolError} QUOTA_EXCEEDED */
export function checkRequestBytes(bytes: number, most: number): void {
  if (bytes > most) throw new ToolError("QUOTA_EXCEEDED", `A request's body may have ${most} bytes`);
}

/** @throws {ToolError} PARAM_INVALID */
export function fromBase64(text: string): Buffer {
  if (/[^A-Za-z0-9+/=]/.test(text)) throw new ToolError("PARAM_INVALID", "Expected base64");
  return Buffer.from(text, "base64");
}

/** All of a body that came at once, as it leaves for this URL. */
export async function fillBody(body: Buffer, url: URL, headers: HeaderList, secrets: CallSecrets): Promise<Buffer> {
  const filler = secrets.filler(url, writingOf(headers));
  return Buffer.concat([await filterBytes(filler, body), filler.end()]);
}

/** Of a body that comes in parts. */
const BUFFERED_BYTES = 64 * 1024;

/** A body that the tool writes while it is sent. */
export class Upload {
  readonly stream: PassThrough = new PassThrough({ highWaterMark: BUFFERED_BYTES });
  readonly #filler: StreamFilter;
  readonly #maxBytes: number;
  #bytes = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(filler: StreamFilter, maxBytes: number) {
    this.#filler = filler;
    this.#maxBytes = maxBytes;
    // Its end is told by the exchange; what nobody wants any more is no error.
    this.stream.on("error", () => {});
  }

  /** Resolves when there is room for more, or nobody wants it. @throws {ToolError} QUOTA_EXCEEDED, CAPABILITY_DENIED */
  write(chunk: Buffer): Promise<void> {
    return this.#inTurn(async () => {
      this.#bytes += chunk.length;
      checkRequestBytes(this.#bytes, this.#maxBytes);
      const filled = await filterBytes(this.#filler, chunk);
      if (filled.length > 0) await this.#put(filled);
    });
  }

  end(): Promise<void> {
    return this.#inTurn(async () => {
      const rest = this.#filler.end();
      if (rest.length > 0) await this.#put(rest);
      this.stream.end();
    });
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
