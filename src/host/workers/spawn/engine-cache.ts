// Caches that processes of this host start from: V8's code caches of Glovebox's own scripts, and the Python
// interpreter's snapshot. One process makes each of them before any code of a tool runs in it.

export class EngineCache {
  /** Largest cache that is accepted, in bytes. */
  readonly maxBytes: number;
  readonly #onMade: (bytes: Uint8Array) => void;
  #bytes: Uint8Array;

  /**
   * @param known cache that was made on this engine before
   * @param onMade called with the first cache that a process makes; never called if one was known
   */
  constructor(maxBytes: number, known: Uint8Array = new Uint8Array(0), onMade: (bytes: Uint8Array) => void = () => {}) {
    this.maxBytes = maxBytes;
    this.#bytes = known;
    this.#onMade = onMade;
  }

  /** Empty until a cache is known. */
  get bytes(): Uint8Array {
    return this.#bytes;
  }

  /**
   * Stores a cache made by a process, unless one is known.
   * @throws {Error} when it is too large
   */
  offer(made: Uint8Array): void {
    if (made.byteLength > this.maxBytes) throw new Error("The worker sent a cache that is too large");
    if (this.#bytes.byteLength > 0) return;
    // Copied, because the bytes are a view of a whole frame.
    this.#bytes = new Uint8Array(made);
    this.#onMade(this.#bytes);
  }
}
