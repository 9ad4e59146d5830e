// Requests of a DevTools client that have no response yet. Requests are queued while a tool is paused or no isolate exists, so their number
// and total size are limited: a client must not fill the host's memory.

const MAX_REQUESTS = 1_000;
/** Total length of all open requests, in UTF-16 code units. */
const MAX_TOTAL_LENGTH = 32 * 1024 * 1024;

export class OpenRequests {
  readonly #lengths = new Map<number, number>();
  #totalLength = 0;

  get ids(): readonly number[] {
    return [...this.#lengths.keys()];
  }

  /** Returns false if there are too many requests or one with this id is open. Such a request must not be passed on. */
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
