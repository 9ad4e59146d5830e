// Sizes of the parts of a long read. With SQLite, a query holds the event loop: between two parts, other requests have their turn.
import { setImmediate as nextTurn } from "node:timers/promises";

/** Time in ms that one part should take. */
const TARGET_MS = 5;
const SIZE = { min: 100, first: 250, max: 2_000 } as const;

/** Chooses how many rows the next part reads, by how long the last one took. */
export class Slices {
  #size: number = SIZE.first;
  #begun = performance.now();

  get size(): number {
    return this.#size;
  }

  /** Lets other requests have their turn after a part. */
  async next(): Promise<void> {
    const tookMs = Math.max(0.1, performance.now() - this.#begun);
    const wanted = Math.round((this.#size * TARGET_MS) / tookMs);
    this.#size = Math.min(SIZE.max, Math.max(SIZE.min, Math.min(wanted, this.#size * 2)));
    await nextTurn();
    this.#begun = performance.now();
  }
}
