// Events on their way to whoever reads them: a queue with room for so many, and the async iterable around it, which never rejects and
// ends in the outcome.

/** Events that may wait for their reader before the one who makes them is held up. */
const WINDOW = 256;

interface Waiting<Event> {
  event: Event;
  readonly key: string | undefined;
}

/** Between the one who makes events and the one who reads them. */
export class EventQueue<Event> {
  readonly #waiting: Waiting<Event>[] = [];
  readonly #replaceable = new Map<string, Waiting<Event>>();
  #isClosed = false;
  #wakeReader: (() => void) | undefined;
  #wakeWriters: (() => void)[] = [];

  /** @param key an event that still waits under the same key is replaced: of a call's progress only the newest is worth telling */
  push(event: Event, key?: string): void {
    if (this.#isClosed) return;
    const older = key === undefined ? undefined : this.#replaceable.get(key);
    if (older !== undefined) {
      older.event = event;
      return;
    }
    const waiting = { event, key };
    this.#waiting.push(waiting);
    if (key !== undefined) this.#replaceable.set(key, waiting);
    this.#wakeReader?.();
  }

  /** Undefined where there is room; else resolves when there is, or when nobody reads any more. */
  room(): Promise<void> | undefined {
    return this.#isClosed || this.#waiting.length < WINDOW ? undefined : this.#waitForRoom();
  }

  async #waitForRoom(): Promise<void> {
    while (!this.#isClosed && this.#waiting.length >= WINDOW) {
      await new Promise<void>((resolve) => this.#wakeWriters.push(resolve));
    }
  }

  /** No more events come; those that wait are still read. */
  close(): void {
    this.#isClosed = true;
    this.#wakeReader?.();
    this.#wake();
  }

  #wake(): void {
    const writers = this.#wakeWriters;
    this.#wakeWriters = [];
    for (const wake of writers) wake();
  }

  /** Undefined after the last one. For one reader. */
  async next(): Promise<Event | undefined> {
    while (this.#waiting.length === 0) {
      if (this.#isClosed) return undefined;
      await new Promise<void>((resolve) => {
        this.#wakeReader = resolve;
      });
    }
    const taken = this.#waiting.shift();
    if (taken?.key !== undefined) this.#replaceable.delete(taken.key);
    if (this.#waiting.length < WINDOW) this.#wake();
    return taken?.event;
  }
}

/** Begins when its first item is asked for. Never rejects. To leave it early (`break`) stops what makes the events, and waits for its end. */
export type EventStream<Event> = AsyncGenerator<Event, void, undefined>;

async function* read<Event>(
  start: (events: EventQueue<Event>, stop: AbortSignal) => Promise<Event>,
  stop: AbortController,
): EventStream<Event> {
  const events = new EventQueue<Event>();
  const ending = start(events, stop.signal);
  void ending.finally(() => events.close()).catch(() => {});
  try {
    for (;;) {
      const event = await events.next();
      if (event === undefined) break;
      yield event;
    }
    yield await ending;
  } finally {
    stop.abort();
    // Nobody reads: what still comes is not kept, and nobody waits for room.
    events.close();
    await ending;
  }
}

/** @param start makes the events; resolves with the last one, never rejects, and ends soon after `stop` aborts */
export function createEventStream<Event>(
  start: (events: EventQueue<Event>, stop: AbortSignal) => Promise<Event>,
): EventStream<Event> {
  const stop = new AbortController();
  const items = read(start, stop);
  const leave = (): Promise<IteratorResult<Event, void>> => {
    // Also when an item is being waited for: a generator takes `return` only when it stands at a `yield`.
    stop.abort();
    return items.return();
  };
  const stream: EventStream<Event> = {
    next: () => items.next(),
    return: leave,
    throw: leave,
    [Symbol.asyncIterator]: () => stream,
    [Symbol.asyncDispose]: async () => {
      await leave();
    },
  };
  return stream;
}
