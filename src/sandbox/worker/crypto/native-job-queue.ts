// Schedules the isolates' jobs on the threads of the process. Running jobs cannot be stopped, so one isolate must not occupy all threads.

import { availableParallelism } from "node:os";

/** Maximum number of running jobs. Node's pool has four threads; one stays free, since a job may take seconds. */
const MAX_RUNNING = 3;
/** Maximum number of running jobs of one isolate. At least one core is left for the other isolates. */
const MAX_PER_OWNER = 2;

export interface JobLimits {
  readonly running: number;
  readonly perOwner: number;
}

function limitsForMachine(): JobLimits {
  const cores = availableParallelism();
  return {
    running: Math.min(MAX_RUNNING, Math.max(2, cores)),
    perOwner: Math.min(MAX_PER_OWNER, Math.max(1, cores - 1)),
  };
}

type Task = () => Promise<void>;

interface OwnerQueue {
  readonly waiting: Task[];
  running: number;
}

/** Runs the jobs of all isolates of a worker. Owners take turns (round robin). */
export class NativeJobQueue {
  /** Owners with jobs. The most recently served one is last. */
  #queues = new Map<object, OwnerQueue>();
  #running = 0;
  readonly #limits: JobLimits;

  constructor(limits: JobLimits = limitsForMachine()) {
    this.#limits = limits;
  }

  /** Queues a task and runs it when it is its owner's turn. The task must not reject. */
  add(owner: object, task: Task): void {
    const queue = this.#queues.get(owner) ?? { waiting: [], running: 0 };
    this.#queues.set(owner, queue);
    queue.waiting.push(task);
    this.#startNext();
  }

  /** Removes the owner's tasks that have not started. */
  removeWaiting(owner: object): void {
    const queue = this.#queues.get(owner);
    if (queue === undefined) return;
    queue.waiting.length = 0;
    if (queue.running === 0) this.#queues.delete(owner);
  }

  #startNext(): void {
    while (this.#running < this.#limits.running) {
      const next = [...this.#queues].find(
        ([, queue]) => queue.waiting.length > 0 && queue.running < this.#limits.perOwner,
      );
      if (next === undefined) return;
      const [owner, queue] = next;
      this.#queues.delete(owner);
      this.#queues.set(owner, queue);
      void this.#run(owner, queue, queue.waiting.shift() as Task);
    }
  }

  async #run(owner: object, queue: OwnerQueue, task: Task): Promise<void> {
    queue.running += 1;
    this.#running += 1;
    await task();
    queue.running -= 1;
    this.#running -= 1;
    if (queue.running === 0 && queue.waiting.length === 0) this.#queues.delete(owner);
    this.#startNext();
  }
}
