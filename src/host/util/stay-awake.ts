// Keeps the event loop from going to sleep when a reply is expected at once: waking up a sleeping thread takes longer than the reply.

/** Longest time in ms to stay awake. Waking up takes 30 to 100 µs, and the reply of a short computation less. */
const AWAKE_MS = 0.15;
/** Late replies in a row after which the next ones are expected to be late too. */
const MAX_LATE = 3;
/** Replies for which the loop then goes to sleep at once. */
const SLEEPS = 50;

export class StayAwake {
  #until = 0;
  #isAwake = false;
  #lateReplies = 0;
  #sleeps = 0;

  /** Stays awake until `recordReply`, for at most `AWAKE_MS`. Other events are processed meanwhile. */
  expectReply(): void {
    if (this.#sleeps > 0) {
      this.#sleeps -= 1;
      return;
    }
    this.#until = performance.now() + AWAKE_MS;
    if (this.#isAwake) return;
    this.#isAwake = true;
    setImmediate(() => this.#turn());
  }

  recordReply(): void {
    if (this.#until === 0) return;
    this.#until = 0;
    this.#lateReplies = 0;
  }

  #turn(): void {
    if (this.#until !== 0 && performance.now() < this.#until) {
      setImmediate(() => this.#turn());
      return;
    }
    this.#isAwake = false;
    if (this.#until === 0) return;
    this.#until = 0;
    this.#lateReplies += 1;
    if (this.#lateReplies < MAX_LATE) return;
    this.#lateReplies = 0;
    this.#sleeps = SLEEPS;
  }
}
