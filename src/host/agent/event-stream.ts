// Event stream of a run: a bounded queue, and the async iterable around it, which never rejects and ends with the outcome.

import { createStoppableGenerator } from "../util/stoppable-generator.ts";

/** Events that may be queued before the producer has to wait for the reader. */
const WINDOW = 256;

interface QueuedEvent<Event> {
  event: Event;
  readonly key: string | undefined;
}

/** A bounded queue between the producer and the reader of events. */
export class EventQueue<Event> {
  readonly #queue: QueuedEvent<Event>[] = [];
  readonly #replaceable = new Map<string, QueuedEvent<Event>>();
  #isClosed = false;
  #wakeReader: (() => void) | undefined;
  #wakeWriters: (() => void)[] = [];

  /** @param key replaces an event that is still queued under the same key: only the newest progress of a call is of interest */
  push(event: Event, key?: string): void {
    if (this.#isClosed) return;
    const existing = key === undefined ? undefined : this.#replaceable.get(key);
    if (existing !== undefined) {
      existing.event = event;
      return;
    }
    const queued = { event, key };
    this.#queue.push(queued);
    if (key !== undefined) this.#replaceable.set(key, queued);
    this.#wakeReader?.();
  }

  /** Returns undefined if the queue has room; otherwise resolves when it has room or is closed. */
  room(): Promise<void> | undefined {
    return this.#isClosed || this.#queue.length < WINDOW ? undefined : this.#waitForRoom();
  }

  async #waitForRoom(): Promise<void> {
    while (!this.#isClosed && this.#queue.length >= WINDOW) {
      await new Promise<void>((resolve) => this.#wakeWriters.push(resolve));
    }
  }

  /** Ends the queue. Queued events can still be read. */
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

  /** Returns the next event, or undefined after the last one. Supports one reader. */
  async next(): Promise<Event | undefined> {
    while (this.#queue.length === 0) {
      if (this.#isClosed) return undefined;
      await new Promise<void>((resolve) => {
        this.#wakeReader = resolve;
      });
    }
    const taken = this.#queue.shift();
    if (taken?.key !== undefined) this.#replaceable.delete(taken.key);
    if (this.#queue.length < WINDOW) this.#wake();
    return taken?.event;
  }
}

/** Starts when its first item is requested. Never rejects. Leaving it early (`break`) stops the producer and waits until it has ended. */
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
    // The reader has left: discard further events, and release a producer that waits for room.
    events.close();
    await ending;
  }
}

/** @param start produces the events; resolves with the last one, never rejects, and ends soon after `stop` aborts */
export function createEventStream<Event>(
  start: (events: EventQueue<Event>, stop: AbortSignal) => Promise<Event>,
): EventStream<Event> {
  return createStoppableGenerator((stop) => read(start, stop));
}
