// Reads the start of a response body before the tool does. A short body is then complete even if it is never read, and the host's
// connection is free again. Otherwise a tool that only checks the status would keep one connection per response.
import type { BodySource } from "./fetch-body.ts";

const AHEAD_BYTES = 64 * 1024;

export class ReadAhead implements BodySource {
  readonly #source: BodySource;
  readonly #check: () => void;
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  #isEnded = false;
  #failure: { readonly reason: unknown } | undefined;
  #filling: Promise<void> | undefined;

  /** @param check throws when the body must not be read any more */
  constructor(source: BodySource, check: () => void) {
    this.#source = source;
    this.#check = check;
    void this.#fill();
  }

  async next(): Promise<Uint8Array | undefined> {
    this.#check();
    while (this.#chunks.length === 0 && !this.#isEnded && this.#failure === undefined) await this.#fill();
    const chunk = this.#chunks.shift();
    if (chunk === undefined && this.#failure !== undefined) throw this.#failure.reason;
    this.#bytes -= chunk?.byteLength ?? 0;
    void this.#fill();
    return chunk;
  }

  cancel(reason: unknown): Promise<void> | void {
    this.#drop();
    this.#isEnded = true;
    return this.#source.cancel(reason);
  }

  /** Discards what was read ahead, and fails later reads. */
  fail(reason: unknown): void {
    this.#drop();
    this.#failure = { reason };
  }

  #drop(): void {
    this.#chunks = [];
    this.#bytes = 0;
  }

  /** Reads one chunk, and further ones while there is room. Never rejects. */
  #fill(): Promise<void> {
    if (this.#isEnded || this.#failure !== undefined || this.#bytes >= AHEAD_BYTES) return Promise.resolve();
    this.#filling ??= this.#readOne().finally(() => {
      this.#filling = undefined;
      void this.#fill();
    });
    return this.#filling;
  }

  async #readOne(): Promise<void> {
    try {
      const chunk = await this.#source.next();
      if (this.#isEnded || this.#failure !== undefined) return;
      if (chunk === undefined) this.#isEnded = true;
      else {
        this.#chunks.push(chunk);
        this.#bytes += chunk.byteLength;
      }
    } catch (reason) {
      this.#failure ??= { reason };
    }
  }
}
