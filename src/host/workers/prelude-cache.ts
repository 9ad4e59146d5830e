// V8's code cache of the prelude, for every process of this host: made by the first one, before anything of a tool's is in it.
import { CODE_CACHE_FACTOR } from "../../bundler/bundle-cache.ts";

export class PreludeCache {
  readonly #maxBytes: number;
  readonly #onMade: (bytes: Uint8Array) => void;
  #bytes: Uint8Array;

  /**
   * @param known made on this engine before
   * @param onMade called with the first one that a process has made; not when one was known
   */
  constructor(
    preludeSource: string,
    known: Uint8Array = new Uint8Array(0),
    onMade: (bytes: Uint8Array) => void = () => {},
  ) {
    this.#maxBytes = CODE_CACHE_FACTOR * preludeSource.length;
    this.#bytes = known;
    this.#onMade = onMade;
  }

  /** Empty as long as none is known: then a process makes one when it starts. */
  get bytes(): Uint8Array {
    return this.#bytes;
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
