// The future of a simulation: events by the time at which they happen, as a binary heap.

export class EventQueue<Event> {
  readonly #times: number[] = [];
  readonly #events: Event[] = [];

  get size(): number {
    return this.#times.length;
  }

  add(time: number, event: Event): void {
    let index = this.#times.length;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if ((this.#times[parent] as number) <= time) break;
      this.#move(parent, index);
      index = parent;
    }
    this.#times[index] = time;
    this.#events[index] = event;
  }

  /** Time of the earliest event; infinity if there is none. */
  get nextTime(): number {
    return this.#times[0] ?? Number.POSITIVE_INFINITY;
  }

  /** Removes the earliest event. */
  take(): Event | undefined {
    const [first] = this.#events;
    const time = this.#times.pop();
    const event = this.#events.pop();
    const count = this.#times.length;
    if (time === undefined || event === undefined || count === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= count) break;
      if (child + 1 < count && (this.#times[child + 1] as number) < (this.#times[child] as number)) child += 1;
      if ((this.#times[child] as number) >= time) break;
      this.#move(child, index);
      index = child;
    }
    this.#times[index] = time;
    this.#events[index] = event;
    return first;
  }

  #move(from: number, to: number): void {
    this.#times[to] = this.#times[from] as number;
    this.#events[to] = this.#events[from] as Event;
  }
}
