// The requests of a DevTools client that have no answer yet. What a client sends while a tool is stopped at a breakpoint, or before there
// is an isolate, is kept for later: their number and size are bounded, so that no client can fill the host's memory.

const MAX_REQUESTS = 1_000;
/** All of them together, in UTF-16 units. */
const MAX_TOTAL_LENGTH = 32 * 1024 * 1024;

export class OpenRequests {
  readonly #lengths = new Map<number, number>();
  #totalLength = 0;

  get ids(): readonly number[] {
    return [...this.#lengths.keys()];
  }

  /** Returns false if there are too many, or one with this id is open: such a request must not be passed on. */
  add(id: number, length: number): boolean {
    if (this.#lengths.has(id) || this.#lengths.size >= MAX_REQUESTS) return false;
    if (this.#totalLength + length > MAX_TOTAL_LENGTH) return false;
    this.#lengths.set(id, length);
    this.#totalLength += length;
    return true;
  }

  /** Returns false if no request with this id is open. */
  delete(id: number): boolean {
    this.#totalLength -= this.#lengths.get(id) ?? 0;
    return this.#lengths.delete(id);
  }

  clear(): void {
    this.#lengths.clear();
    this.#totalLength = 0;
  }
}
