// A long string of JSON text, read in pieces: 8 MiB of escapes in one go took 70 ms [m].

import type { JsonErrorFactory } from "./json-errors.ts";
import { isContinuation } from "./json-scanner.ts";

export class LongString {
  readonly #bytes: Buffer;
  readonly #refusals: JsonErrorFactory;
  #readAt: number;
  #text = "";

  /** @param readAt where its first character is */
  constructor(bytes: Buffer, readAt: number, refusals: JsonErrorFactory) {
    this.#bytes = bytes;
    this.#readAt = readAt;
    this.#refusals = refusals;
  }

  get text(): string {
    return this.#text;
  }

  /** Reads on up to `to`, which is not within an escape; leaves the beginning of a character for the next piece. */
  read(to: number): void {
    const end = Math.max(this.#readAt, this.#startOfCharacter(Math.min(to, this.#bytes.length)));
    try {
      this.#text += JSON.parse(`"${this.#bytes.toString("utf8", this.#readAt, end)}"`);
    } catch (cause) {
      throw this.#refusals.syntax(cause);
    }
    this.#readAt = end;
  }

  /** A character goes on for three bytes at most: a fourth belongs to none, and the text may be cut there. */
  #startOfCharacter(at: number): number {
    for (let back = 0; back < 4; back += 1) {
      if (!isContinuation(this.#bytes[at - back])) return at - back;
    }
    return at;
  }
}
