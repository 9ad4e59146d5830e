// Runs tasks of one key one after the other: messages of a call stay in order although some of them wait for an object.

export class OrderedTasks {
  readonly #tails = new Map<string, Promise<void>>();
  readonly #onError: (key: string, error: unknown) => void;

  /** @param onError receives the failure of a task. Later tasks of the key run nevertheless */
  constructor(onError: (key: string, error: unknown) => void) {
    this.#onError = onError;
  }

  /** Runs a task at once, unless an earlier one of its key is under way. */
  run(key: string, task: () => Promise<void> | undefined): void {
    const tail = this.#tails.get(key);
    if (tail !== undefined) {
      this.#follow(key, tail.then(task));
      return;
    }
    try {
      const running = task();
      if (running !== undefined) this.#follow(key, running);
    } catch (thrown) {
      this.#onError(key, thrown);
    }
  }

  #follow(key: string, running: Promise<void>): void {
    const tail = running
      .catch((thrown: unknown) => this.#onError(key, thrown))
      .then(() => {
        if (this.#tails.get(key) === tail) this.#tails.delete(key);
      });
    this.#tails.set(key, tail);
  }
}
