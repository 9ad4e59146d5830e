// The pending timers of one guest. The guest keeps the callbacks; the worker waits and enters the guest when a timer is due.

export class GuestTimers {
  readonly #fire: (id: number) => void;
  readonly #timers = new Map<number, NodeJS.Timeout | NodeJS.Immediate>();

  constructor(fire: (id: number) => void) {
    this.#fire = fire;
  }

  get size(): number {
    return this.#timers.size;
  }

  /** Starts a timer, or restarts it. A delay of 0 ms fires in the next turn of the event loop, a negative one cancels the timer. */
  set(id: number, delayMs: number): void {
    this.#timers.get(id)?.[Symbol.dispose]();
    this.#timers.delete(id);
    if (delayMs < 0) return;
    const fire = (): void => {
      this.#timers.delete(id);
      this.#fire(id);
    };
    this.#timers.set(id, delayMs === 0 ? setImmediate(fire) : setTimeout(fire, delayMs));
  }

  clear(): void {
    for (const timer of this.#timers.values()) timer[Symbol.dispose]();
    this.#timers.clear();
  }
}
