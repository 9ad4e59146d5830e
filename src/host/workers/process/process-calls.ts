// The calls in one worker process, and whether further calls may join them.
import type { WorkerCall } from "./worker-call.ts";

/** Age in ms from which a call no longer counts as a short one. */
const SHORT_CALL_MS = 50;

export class ProcessCalls implements Iterable<WorkerCall> {
  /** In ascending order of their numbers. An array, because a Map would allocate a table for almost every call. */
  readonly #calls: WorkerCall[] = [];

  get size(): number {
    return this.#calls.length;
  }

  [Symbol.iterator](): ArrayIterator<WorkerCall> {
    return this.#calls.values();
  }

  /** Adds a call. Its number must be higher than those of all earlier calls. */
  add(call: WorkerCall): void {
    this.#calls.push(call);
  }

  get(seq: number): WorkerCall | undefined {
    return this.#calls[this.#indexOf(seq)];
  }

  delete(seq: number): void {
    const index = this.#indexOf(seq);
    if (index >= 0) this.#calls.splice(index, 1);
  }

  clear(): void {
    this.#calls.length = 0;
  }

  #indexOf(seq: number): number {
    const calls = this.#calls;
    let low = 0;
    let high = calls.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const found = (calls[middle] as WorkerCall).seq;
      if (found === seq) return middle;
      if (found < seq) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }

  /** Calls that are not paused for an answer of their caller. A paused call computes nothing. */
  get busy(): number {
    let count = 0;
    for (const { pauses } of this.#calls) if (pauses === 0) count += 1;
    return count;
  }

  /** Calls that may be short: they have just begun, and are not paused for an answer of their caller. */
  get newCalls(): number {
    if (this.#calls.length === 0) return 0;
    const since = performance.now() - SHORT_CALL_MS;
    let count = 0;
    for (const { pauses, startedAt } of this.#calls) if (pauses === 0 && startedAt > since) count += 1;
    return count;
  }

  /** Whether there are calls, and each waits for the result of another call. */
  get areNesting(): boolean {
    for (const { nested } of this.#calls) if (nested === 0) return false;
    return this.#calls.length > 0;
  }

  /** Calls that the calls of the process wait for. */
  get awaited(): number {
    let sum = 0;
    for (const { nested } of this.#calls) sum += nested;
    return sum;
  }

  /** Whether a call keeps the process from reading messages; see `mainThreadMs` in host-messages.ts. */
  get runsOnMainThread(): boolean {
    for (const call of this.#calls) if (call.runsOnMainThread) return true;
    return false;
  }

  /** Whether a call has ended but has not stopped. The whole process may have to be killed. */
  get isReleasing(): boolean {
    for (const call of this.#calls) if (call.isReleasing) return true;
    return false;
  }

  /** Average CPU time in ms of each call since the oldest of them started, if the process has used `cpuMs` so far. */
  cpuMsPerCall(cpuMs: number): number {
    const [oldest] = this.#calls;
    return oldest === undefined ? 0 : (cpuMs - oldest.cpuMsBefore) / this.#calls.length;
  }
}
