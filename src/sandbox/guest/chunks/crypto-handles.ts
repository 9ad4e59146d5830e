// What the worker holds for the guest under a number, until nobody here holds what it is for.
import { ask } from "../host.ts";

/** More of them than there were after the last look for those that nobody holds any more. */
const SWEEP_EVERY = 128;

export class Handles {
  readonly #held = new Map<number, WeakRef<object>>();
  readonly #forget: string;
  #sweepAt = SWEEP_EVERY;

  /** @param forget the worker's method for a list of them */
  constructor(forget: string) {
    this.#forget = forget;
  }

  add(handle: number, holder: object): void {
    if (this.#held.size >= this.#sweepAt) this.sweep();
    this.#held.set(handle, new WeakRef(holder));
  }

  /** The worker has forgotten it by itself. */
  delete(handle: number): void {
    this.#held.delete(handle);
  }

  /** Has the worker forget what nobody holds any more. */
  sweep(): void {
    const gone: number[] = [];
    for (const [handle, reference] of this.#held) if (reference.deref() === undefined) gone.push(handle);
    for (const handle of gone) this.#held.delete(handle);
    if (gone.length > 0) ask("crypto", JSON.stringify({ method: this.#forget, args: [gone] }));
    this.#sweepAt = this.#held.size + SWEEP_EVERY;
  }
}
