// Which isolate's jobs are on the process's threads: the threads cannot be stopped, and are not to be one isolate's alone.

/** Node's pool has four threads. One stays free of what may take seconds. */
const MAX_RUNNING = 3;
/** Of one isolate, while others may want some. */
const MAX_OF_ONE = 2;

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
    while (this.#running < MAX_RUNNING) {
      const next = [...this.#lanes].find(([, lane]) => lane.waiting.length > 0 && lane.running < MAX_OF_ONE);
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
