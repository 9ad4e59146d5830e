// A timer for answers of other programs, such as worker processes. After the host has been blocked or paused, its timers are due before it has
// read the answers that came meanwhile: a plain timer would end processes and connections that answered in time.

/** A timer that is later than this, in ms, was delayed by the host itself. */
const LATE_MS = 10;
/** The same for times of half a second and more: with 10 ms, a busy machine would make them several times as long. */
export const LONG_LATE_MS = 100;
/** Maximum number of times that a delayed timer starts again: a host that is always late must still end processes that do not answer. */
const MAX_RESTARTS = 3;

/** Runs a function once, after a time in which the host could read messages. Disposing it before then stops it. */
export class RunningTimer implements Disposable {
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  readonly #lateMs: number;

  /**
   * @param withinMs time in ms. It starts again after a delay of the host
   * @param lateMs shortest delay in ms that counts. Default: 10
   */
  constructor(withinMs: number, onTimeout: () => void, lateMs: number = LATE_MS) {
    this.#lateMs = lateMs;
    this.#start(withinMs, onTimeout, MAX_RESTARTS);
  }

  #start(withinMs: number, onTimeout: () => void, restarts: number): void {
    const dueAt = performance.now() + withinMs;
    this.#timer = setTimeout(() => {
      if (restarts > 0 && performance.now() - dueAt > this.#lateMs) this.#start(withinMs, onTimeout, restarts - 1);
      // Between timers and immediates the event loop reads sockets.
      else this.#immediate = setImmediate(onTimeout);
    }, withinMs);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    if (this.#immediate !== undefined) clearImmediate(this.#immediate);
  }
}
