// What the worker holds for the guest under a number, until nobody here holds what it is for.
import { ask } from "../host.ts";
import { ArrayBufferConstructor } from "../primordials.ts";

/** More of them than there were after the last look for those that nobody holds any more. */
const SWEEP_EVERY = 128;

/** From this number on, and from twice as many as the last collection left, V8 is made to collect. The smallest call has room for 512 keys. */
const COLLECT_FROM = 384;
/** More than the largest memory limit: the allocation fails, and V8 collects everything before it gives up. */
const TOO_MANY_BYTES = 2 ** 33;

/**
 * Has V8 look for what nobody holds. V8 sees a few small objects here and no reason to collect, and the references to keys are cleared by
 * full collections only: on Node 24, 4,000 forgotten keys filled the memory that a call has for keys.
 */
function collectGarbage(): void {
  try {
    new ArrayBufferConstructor(TOO_MANY_BYTES);
  } catch {
    // It always fails.
  }
}

export class Handles {
  readonly #held = new Map<number, WeakRef<object>>();
  readonly #forget: string;
  #sweepAt = SWEEP_EVERY;
  #collectAt = COLLECT_FROM;

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
    // Before the look: what a job has looked at stays until its end.
    const collects = this.#held.size >= this.#collectAt;
    if (collects) collectGarbage();
    const gone: number[] = [];
    for (const [handle, reference] of this.#held) if (reference.deref() === undefined) gone.push(handle);
    for (const handle of gone) this.#held.delete(handle);
    if (gone.length > 0) ask("crypto", JSON.stringify({ method: this.#forget, args: [gone] }));
    this.#sweepAt = this.#held.size + SWEEP_EVERY;
    if (collects) this.#collectAt = Math.max(COLLECT_FROM, 2 * this.#held.size);
  }
}
