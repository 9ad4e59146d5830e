// Finds calls that wait for each other: callers keep their processes until the calls that they have made end, and those wait for a process. When no
// process is left for any of them, one has to fail, so that the others go on.

/** Time in ms without a change after which all waiting calls count as waiting for each other. */
const UNCHANGED_MS = 1_000;

export interface DeadlockSources {
  /** Returns whether each process has calls that wait for others, no further one can start, and calls wait for a process. Called often. */
  readonly mayBeStuck: () => boolean;
  /**
   * Returns whether each call that is waited for is itself in the pool, so that no other one can end first. Called only after nothing has changed
   * for a while.
   */
  readonly isStuck: () => boolean;
  /** Lets one of the waiting calls fail. */
  readonly rejectOne: () => void;
}

export class DeadlockWatch implements Disposable {
  readonly #sources: DeadlockSources;
  #timer: NodeJS.Timeout | undefined;
  /** Counts the calls that have begun or ended. */
  #changes = 0;

  constructor(sources: DeadlockSources) {
    this.#sources = sources;
  }

  /** Records that a call has begun or ended. */
  recordChange(): void {
    this.#changes += 1;
  }

  /** Called after each attempt to place the calls that wait. */
  look(): void {
    if (this.#timer !== undefined || !this.#sources.mayBeStuck()) return;
    const before = this.#changes;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const { mayBeStuck, isStuck, rejectOne } = this.#sources;
      if (before === this.#changes && mayBeStuck() && isStuck()) rejectOne();
      this.look();
    }, UNCHANGED_MS);
    this.#timer.unref();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
