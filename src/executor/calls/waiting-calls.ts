// The calls of an executor whose state is to be reported. A report waits for another message of the call that can carry it,
// so that a short call needs one message.

/** Shortest time in ms that a report waits. The longest is twice as long. */
const WAIT_MS = 10;

/** A call whose state is to be reported. */
export interface Waiting {
  announce(): void;
}

export class WaitingCalls implements Disposable {
  /** Those that have waited since before the timer was started, and those that came later. */
  #early = new Set<Waiting>();
  #late = new Set<Waiting>();
  #timer: NodeJS.Timeout | undefined;

  add(call: Waiting): void {
    if (!this.#early.has(call)) this.#late.add(call);
    this.#timer ??= setTimeout(() => this.#tick(), WAIT_MS);
  }

  delete(call: Waiting): void {
    if (!this.#late.delete(call)) this.#early.delete(call);
  }

  #tick(): void {
    this.#timer = undefined;
    const due = this.#early;
    this.#early = this.#late;
    this.#late = new Set();
    for (const call of due) call.announce();
    if (this.#early.size > 0) this.#timer ??= setTimeout(() => this.#tick(), WAIT_MS);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#early.clear();
    this.#late.clear();
  }
}
