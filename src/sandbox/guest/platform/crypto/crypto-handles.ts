// Numbers that refer to objects in the worker. When the guest's object is garbage-collected, the worker drops its own.
import { requestFromWorker } from "../../host.ts";
import { ArrayBufferConstructor } from "../../primordials.ts";

/** Number of new handles after which the collected ones are swept. */
const SWEEP_EVERY = 128;

/**
 * Number of handles, and twice the number after the last collection, from which garbage collection is forced. The smallest call has room
 * for 512 keys.
 */
const COLLECT_FROM = 384;
/** More than the largest memory limit. The allocation fails, but V8 first runs a full garbage collection. */
const TOO_MANY_BYTES = 2 ** 33;

/**
 * Forces a garbage collection. V8 sees only a few small objects here and has no reason to collect, and only full collections clear the
 * references to keys. Without this, 4,000 unreferenced keys filled a call's memory for keys on Node 24.
 */
function collectGarbage(): void {
  try {
    new ArrayBufferConstructor(TOO_MANY_BYTES);
  } catch {
    // The allocation always fails.
  }
}

export class Handles {
  readonly #references = new Map<number, WeakRef<object>>();
  readonly #forget: string;
  #sweepAt = SWEEP_EVERY;
  #collectAt = COLLECT_FROM;

  /** @param forget name of the worker's method that drops a list of handles */
  constructor(forget: string) {
    this.#forget = forget;
  }

  add(handle: number, holder: object): void {
    if (this.#references.size >= this.#sweepAt) this.sweep();
    this.#references.set(handle, new WeakRef(holder));
  }

  /** Removes a handle that the worker has already dropped. */
  delete(handle: number): void {
    this.#references.delete(handle);
  }

  /** Tells the worker to drop the handles whose objects were garbage-collected. */
  sweep(): void {
    // Collects before reading the references: an object that a task has read stays alive until its end.
    const collects = this.#references.size >= this.#collectAt;
    if (collects) collectGarbage();
    const gone: number[] = [];
    for (const [handle, reference] of this.#references) if (reference.deref() === undefined) gone.push(handle);
    for (const handle of gone) this.#references.delete(handle);
    if (gone.length > 0) requestFromWorker("crypto", JSON.stringify({ method: this.#forget, args: [gone] }));
    this.#sweepAt = this.#references.size + SWEEP_EVERY;
    if (collects) this.#collectAt = Math.max(COLLECT_FROM, 2 * this.#references.size);
  }
}
