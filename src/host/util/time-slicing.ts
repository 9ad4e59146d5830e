// Time-sliced execution of long synchronous work on the host's event loop. All such work shares one queue, which runs one slice in each
// turn of the event loop.

/** Duration of a slice in ms. Each call waits for about six turns of the event loop, so longer slices would delay all calls. */
const SLICE_MS = 2;

/** The CPU account that is charged for a piece of work. */
export interface CpuAccount {
  /** Key of the account. Work of one account runs in order. */
  readonly key: string;
  /** Receives the host's time in ms that each slice took. */
  charge(ms: number): void;
}

/**
 * Round robin over accounts. Within an account, the oldest work runs to its end before the next starts: ten half-built values would all be
 * live at the same time, and V8's garbage collector copies live data twice.
 */
class TimeSliceQueue {
  /** Waiting work by account, next account first. Work without an account has a queue of its own. */
  readonly #queues = new Map<unknown, (() => void)[]>();
  #scheduled = false;

  /** Resolves in a separate turn of the event loop, after its other work. Rejects with the signal's reason as soon as it aborts. */
  async next(account: unknown, hasBegun: boolean, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting = this.#queues.get(account) ?? [];
    if (hasBegun) waiting.unshift(resolve);
    else waiting.push(resolve);
    this.#queues.set(account, waiting);
    this.#schedule();
    const onAbort = (): void => reject(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      await promise;
    } finally {
      signal?.removeEventListener("abort", onAbort);
      this.#leave(account, resolve);
    }
  }

  /** Removes work from its queue, unless its turn has already come. */
  #leave(account: unknown, resolve: () => void): void {
    const waiting = this.#queues.get(account);
    const index = waiting?.indexOf(resolve) ?? -1;
    if (index >= 0) waiting?.splice(index, 1);
    if (waiting?.length === 0) this.#queues.delete(account);
  }

  #schedule(): void {
    if (this.#scheduled || this.#queues.size === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#run();
      this.#schedule();
    });
  }

  #run(): void {
    const [first] = this.#queues;
    if (first === undefined) return;
    const [account, waiting] = first;
    this.#queues.delete(account);
    const resolve = waiting.shift();
    if (waiting.length > 0) this.#queues.set(account, waiting);
    resolve?.();
  }
}

const timeSliceQueue = new TimeSliceQueue();

/**
 * Calls `step` in slices, one in each turn of the event loop, until it returns true.
 * Rejects with the exception of `step`, or with the signal's reason: immediately, or after the current slice.
 */
export async function runTimeSliced(
  step: () => boolean,
  signal: AbortSignal | undefined,
  cpuAccount?: CpuAccount,
): Promise<void> {
  const account = cpuAccount?.key ?? Symbol();
  for (let isDone = false, hasBegun = false; !isDone; hasBegun = true) {
    await timeSliceQueue.next(account, hasBegun, signal);
    const began = performance.now();
    try {
      do isDone = step();
      while (!isDone && performance.now() < began + SLICE_MS);
    } finally {
      cpuAccount?.charge(performance.now() - began);
    }
  }
}

/** Bytes copied per step. Copying 1 MiB takes under 1 ms; 64 MiB at once took 60 to 100 ms (measured). */
const COPY_BYTES = 1024 * 1024;

/** Copies bytes to a separate buffer, which can be transferred to a thread. */
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

/** Encodes well-formed text as UTF-8. */
export async function encodeTimeSliced(text: string, signal: AbortSignal | undefined): Promise<Buffer<ArrayBuffer>> {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  let from = 0;
  let at = 0;
  await runTimeSliced(() => {
    let to = Math.min(from + COPY_BYTES, text.length);
    // A chunk must not split a surrogate pair.
    if (to < text.length && isHighSurrogate(text.charCodeAt(to - 1))) to -= 1;
    at += bytes.write(text.slice(from, to), at);
    from = to;
    return from >= text.length;
  }, signal);
  return bytes;
}
