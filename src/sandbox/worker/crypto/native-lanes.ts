// Which isolate's jobs are on the process's threads: the threads cannot be stopped, and are not to be one isolate's alone.

import { availableParallelism } from "node:os";

/** Node's pool has four threads. One stays free of what may take seconds. */
const MAX_RUNNING = 3;
/** Of one isolate: while it computes on as many cores, others are to have one. */
const MAX_OF_ONE = 2;

export interface LaneCaps {
  readonly running: number;
  readonly ofOne: number;
}

function capsOfMachine(): LaneCaps {
  const cores = availableParallelism();
  return { running: Math.min(MAX_RUNNING, Math.max(2, cores)), ofOne: Math.min(MAX_OF_ONE, Math.max(1, cores - 1)) };
}

type Task = () => Promise<void>;

interface Lane {
  readonly waiting: Task[];
  running: number;
}

/** One for a worker. Owners take turns. */
export class NativeLanes {
  /** Those with something to do; who was served last is last. */
  #lanes = new Map<object, Lane>();
  #running = 0;
  readonly #caps: LaneCaps;

  constructor(caps: LaneCaps = capsOfMachine()) {
    this.#caps = caps;
  }

  /** Runs the task when it is its owner's turn. The task never rejects. */
  add(owner: object, task: Task): void {
    const lane = this.#lanes.get(owner) ?? { waiting: [], running: 0 };
    this.#lanes.set(owner, lane);
    lane.waiting.push(task);
    this.#startNext();
  }

  /** Forgets what has not begun. */
  drop(owner: object): void {
    const lane = this.#lanes.get(owner);
    if (lane === undefined) return;
    lane.waiting.length = 0;
    if (lane.running === 0) this.#lanes.delete(owner);
  }

  #startNext(): void {
    while (this.#running < this.#caps.running) {
      const next = [...this.#lanes].find(([, lane]) => lane.waiting.length > 0 && lane.running < this.#caps.ofOne);
      if (next === undefined) return;
      const [owner, lane] = next;
      this.#lanes.delete(owner);
      this.#lanes.set(owner, lane);
      void this.#run(owner, lane, lane.waiting.shift() as Task);
    }
  }

  async #run(owner: object, lane: Lane, task: Task): Promise<void> {
    lane.running += 1;
    this.#running += 1;
    await task();
    lane.running -= 1;
    this.#running -= 1;
    if (lane.running === 0 && lane.waiting.length === 0) this.#lanes.delete(owner);
    this.#startNext();
  }
}
