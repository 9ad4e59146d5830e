// Turns of the event loop for work that is too long for one. The loop is the process's, so all such work shares one queue, and there
// is one slice of it in each turn.

/** What one turn may take: a call comes back to the host half a dozen times, and each time waits for one turn. */
const SLICE_MS = 2;

/** Whose work it is. */
export interface CpuAccount {
  readonly account: string;
  /** Told how much of the host's time each slice took. */
  charge(ms: number): void;
}

/**
 * Accounts take turns; of one account, the oldest work is done to its end before the next begins. Ten values half built would all be
 * alive, and V8 copies twice what lives.
 */
class TimeSliceQueue {
  /** By account; work of nobody's is a line of its own. The next one is first. */
  readonly #lines = new Map<unknown, (() => void)[]>();
  #scheduled = false;

  /** Resolves in a turn of its own, after what else the loop has to do; rejects with the signal's reason, at once. */
  async next(line: unknown, hasBegun: boolean, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting = this.#lines.get(line) ?? [];
    if (hasBegun) waiting.unshift(resolve);
    else waiting.push(resolve);
    this.#lines.set(line, waiting);
    this.#schedule();
    const onAbort = (): void => reject(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      await promise;
    } finally {
      signal?.removeEventListener("abort", onAbort);
      this.#leave(line, resolve);
    }
  }

  /** Also one whose turn has come, which is then in no line. */
  #leave(line: unknown, resolve: () => void): void {
    const waiting = this.#lines.get(line);
    const index = waiting?.indexOf(resolve) ?? -1;
    if (index >= 0) waiting?.splice(index, 1);
    if (waiting?.length === 0) this.#lines.delete(line);
  }

  #schedule(): void {
    if (this.#scheduled || this.#lines.size === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#run();
      this.#schedule();
    });
  }

  #run(): void {
    const [first] = this.#lines;
    if (first === undefined) return;
    const [line, waiting] = first;
    this.#lines.delete(line);
    const resolve = waiting.shift();
    if (waiting.length > 0) this.#lines.set(line, waiting);
    resolve?.();
  }
}

const turns = new TimeSliceQueue();

/**
 * Calls `step` until it says that all is done, a slice in each turn of the event loop.
 * Rejects with what `step` throws, or with the signal's reason, at once or after the slice that runs.
 */
export async function runTimeSliced(
  step: () => boolean,
  signal: AbortSignal | undefined,
  payer?: CpuAccount,
): Promise<void> {
  const line = payer?.account ?? Symbol();
  for (let isDone = false, hasBegun = false; !isDone; hasBegun = true) {
    await turns.next(line, hasBegun, signal);
    const began = performance.now();
    try {
      do isDone = step();
      while (!isDone && performance.now() < began + SLICE_MS);
    } finally {
      payer?.charge(performance.now() - began);
    }
  }
}

/** To copy a MiB takes under 1 ms; 64 at once took 60 to 100 [m]. */
const COPY_BYTES = 1024 * 1024;

/** A copy in a buffer of its own, which can be handed to a thread. */
export async function copyTimeSliced(
  bytes: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  const copy = new Uint8Array(bytes.length);
  let at = 0;
  await runTimeSliced(() => {
    copy.set(bytes.subarray(at, at + COPY_BYTES), at);
    at += COPY_BYTES;
    return at >= bytes.length;
  }, signal);
  return copy;
}

const isHighSurrogate = (unit: number): boolean => (unit & 0xfc00) === 0xd800;

/** Well-formed text as UTF-8. */
export async function encodeInTurns(text: string, signal: AbortSignal | undefined): Promise<Buffer<ArrayBuffer>> {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  let from = 0;
  let at = 0;
  await runTimeSliced(() => {
    let to = Math.min(from + COPY_BYTES, text.length);
    // Half a pair has no UTF-8.
    if (to < text.length && isHighSurrogate(text.charCodeAt(to - 1))) to -= 1;
    at += bytes.write(text.slice(from, to), at);
    from = to;
    return from >= text.length;
  }, signal);
  return bytes;
}
