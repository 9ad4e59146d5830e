// What processes of this host start from, made by one of them before anything of a tool's is in it: V8's code caches of our own scripts,
// the Python interpreter's snapshot.

export class EngineCache {
  /** Of one that may be offered. */
  readonly maxBytes: number;
  readonly #onMade: (bytes: Uint8Array) => void;
  #bytes: Uint8Array;

  /**
   * @param known made on this engine before
   * @param onMade called with the first one that a process has made; not when one was known
   */
  constructor(maxBytes: number, known: Uint8Array = new Uint8Array(0), onMade: (bytes: Uint8Array) => void = () => {}) {
    this.maxBytes = maxBytes;
    this.#bytes = known;
    this.#onMade = onMade;
  }

  /** Empty as long as none is known. */
  get bytes(): Uint8Array {
    return this.#bytes;
  }

  /**
   * Takes what a process has made.
   * @throws {Error} when that is no cache of ours
   */
  offer(made: Uint8Array): void {
    if (made.byteLength > this.maxBytes) throw new Error("The worker sent a cache that is too large");
    if (this.#bytes.byteLength > 0) return;
    // A copy: what has come is a part of its frame.
    this.#bytes = new Uint8Array(made);
    this.#onMade(this.#bytes);
  }
}
