// V8's code caches of our own scripts, for every process of this host: made by one of them, before anything of a tool's is in it.
import { CODE_CACHE_FACTOR } from "../../bundler/bundle-cache.ts";

export class EngineCache {
  readonly #maxBytes: number;
  readonly #onMade: (bytes: Uint8Array) => void;
  #bytes: Uint8Array;

  /**
   * @param units of the scripts' text
   * @param known made on this engine before
   * @param onMade called with the first one that a process has made; not when one was known
   */
  constructor(units: number, known: Uint8Array = new Uint8Array(0), onMade: (bytes: Uint8Array) => void = () => {}) {
    this.#maxBytes = CODE_CACHE_FACTOR * units;
    this.#bytes = known;
    this.#onMade = onMade;
  }

  /** Empty as long as none is known. */
  get bytes(): Uint8Array {
    return this.#bytes;
  }
  /** Of one that may be offered. */
  get maxBytes(): number {
    return this.#maxBytes;
  }

  /**
   * Takes what a process has made.
   * @throws {Error} when that is no cache of ours
   */
  offer(made: Uint8Array): void {
    if (made.byteLength > this.#maxBytes) throw new Error("The worker sent a code cache that is too large");
    if (this.#bytes.byteLength > 0) return;
    // A copy: what has come is a part of its frame.
    this.#bytes = new Uint8Array(made);
    this.#onMade(this.#bytes);
  }
}
