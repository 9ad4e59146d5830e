// Shares a limited number of concurrent builds between owners, so that many or slow builds of one owner do not hold up those of another.
import { ToolError } from "../../../sandbox/contract/errors.ts";

interface WaitingBuild {
  readonly owner: string;
  readonly start: () => void;
}

/** The owner of builds without one. */
const NO_OWNER = "";

export class BuildSlots {
  readonly #max: number;
  /** The number of running builds of each owner. */
  readonly #running = new Map<string, number>();
  /** Waiting builds in order of arrival. */
  readonly #waiting: WaitingBuild[] = [];
  /** Increases with each start. */
  #starts = 0;
  /** The latest start of each owner that has running or waiting builds. */
  readonly #lastStart = new Map<string, number>();
  #count = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** One slot is left to other owners, since a build may take until its time limit. */
  get #maxPerOwner(): number {
    return Math.max(1, this.#max - 1);
  }

  /**
   * Waits for a slot, which the caller disposes.
   * @throws {ToolError} CANCELLED
   */
  async acquire(owner = NO_OWNER, signal?: AbortSignal): Promise<Disposable> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting: WaitingBuild = { owner, start: resolve };
    const onAbort = (): void => {
      const position = this.#waiting.indexOf(waiting);
      if (position >= 0) this.#waiting.splice(position, 1);
      this.#forgetIdle(owner);
      reject(new ToolError("CANCELLED", "The build was cancelled", { cause: signal?.reason }));
    };
    if (signal?.aborted) onAbort();
    else {
      this.#waiting.push(waiting);
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#startNext();
    }
    try {
      await promise;
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
    return { [Symbol.dispose]: () => this.#release(owner) };
  }

  #release(owner: string): void {
    this.#count -= 1;
    this.#running.set(owner, (this.#running.get(owner) ?? 1) - 1);
    this.#startNext();
    this.#forgetIdle(owner);
  }

  /** Starts waiting builds while there are slots: of the owner with the fewest running builds, and then of the one that started longest ago. */
  #startNext(): void {
    while (this.#count < this.#max) {
      let best: WaitingBuild | undefined;
      const seen = new Set<string>();
      for (const waiting of this.#waiting) {
        if (seen.has(waiting.owner)) continue;
        seen.add(waiting.owner);
        const isAllowed = (this.#running.get(waiting.owner) ?? 0) < this.#maxPerOwner;
        if (isAllowed && (best === undefined || this.#isBefore(waiting.owner, best.owner))) best = waiting;
      }
      if (best === undefined) return;
      this.#waiting.splice(this.#waiting.indexOf(best), 1);
      this.#count += 1;
      this.#starts += 1;
      this.#running.set(best.owner, (this.#running.get(best.owner) ?? 0) + 1);
      this.#lastStart.set(best.owner, this.#starts);
      best.start();
    }
  }

  #isBefore(owner: string, other: string): boolean {
    const difference = (this.#running.get(owner) ?? 0) - (this.#running.get(other) ?? 0);
    return (
      difference < 0 || (difference === 0 && (this.#lastStart.get(owner) ?? 0) < (this.#lastStart.get(other) ?? 0))
    );
  }

  #forgetIdle(owner: string): void {
    if ((this.#running.get(owner) ?? 0) > 0 || this.#waiting.some((waiting) => waiting.owner === owner)) return;
    this.#running.delete(owner);
    this.#lastStart.delete(owner);
  }
}
