// Turns of the event loop for work that is too long for one. The loop is the process's, so all such work shares one queue:
// ten large values at a time would otherwise each take a slice of the same turn.

/** What one turn may take: a call comes back to the host half a dozen times, and each time waits for one turn. */
const SLICE_MS = 2;

class TurnQueue {
  readonly #waiting: (() => void)[] = [];
  #scheduled = false;

  /** Resolves in a turn of its own, after what else the loop has to do. */
  next(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    this.#schedule();
    return promise;
  }

  #schedule(): void {
    if (this.#scheduled || this.#waiting.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#waiting.shift()?.();
      this.#schedule();
    });
  }
}

const turns = new TurnQueue();

/**
 * Calls `step` until it says that all is done, a slice in each turn of the event loop.
 * Rejects with what `step` throws, or with the signal's reason, within a turn of its abort.
 * @param onSpent is told the time of each slice
 */
export async function inTurns(
  step: () => boolean,
  signal: AbortSignal | undefined,
  onSpent?: (ms: number) => void,
): Promise<void> {
  for (let isDone = false; !isDone; ) {
    await turns.next();
    signal?.throwIfAborted();
    const began = performance.now();
    try {
      do isDone = step();
      while (!isDone && performance.now() < began + SLICE_MS);
    } finally {
      onSpent?.(performance.now() - began);
    }
  }
}

/** To copy a MiB takes under 1 ms; 64 at once took 60 to 100 [m]. */
const COPY_BYTES = 1024 * 1024;

/** A copy in a buffer of its own, which can be handed to a thread. */
export async function copyInTurns(
  bytes: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  const copy = new Uint8Array(bytes.length);
  let at = 0;
  await inTurns(() => {
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
  await inTurns(() => {
    let to = Math.min(from + COPY_BYTES, text.length);
    // Half a pair has no UTF-8.
    if (to < text.length && isHighSurrogate(text.charCodeAt(to - 1))) to -= 1;
    at += bytes.write(text.slice(from, to), at);
    from = to;
    return from >= text.length;
  }, signal);
  return bytes;
}
