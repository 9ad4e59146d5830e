// Sizes of the parts of a long read or deletion. With SQLite, a statement holds the event loop: between two parts, other requests have their turn.
import { setImmediate as nextTurn } from "node:timers/promises";

export interface SliceSizes {
  /** Time in ms that one part should take. */
  readonly targetMs: number;
  /** Rows of the smallest part. A part also takes a time that does not depend on its rows, such as that of a transaction. */
  readonly min: number;
  readonly first: number;
  readonly max: number;
}

const READ_SIZES: SliceSizes = { targetMs: 5, min: 100, first: 250, max: 2_000 };

/** Chooses how many rows the next part has, by how long the last one took. */
export class Slices {
  readonly #sizes: SliceSizes;
  #size: number;
  #begun = performance.now();

  constructor(sizes: SliceSizes = READ_SIZES) {
    this.#sizes = sizes;
    this.#size = sizes.first;
  }

  get size(): number {
    return this.#size;
  }

  /** Lets other requests have their turn after a part. */
  async next(): Promise<void> {
    const { targetMs, min, max } = this.#sizes;
    const tookMs = Math.max(0.1, performance.now() - this.#begun);
    const wanted = Math.round((this.#size * targetMs) / tookMs);
    this.#size = Math.min(max, Math.max(min, Math.min(wanted, this.#size * 2)));
    await nextTurn();
    this.#begun = performance.now();
  }
}
