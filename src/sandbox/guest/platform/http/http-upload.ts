// The body of a request of node:http: kept until the exchange starts, or sent while it is written.
import { inContext } from "../../timers.ts";
import type { BodySource } from "../fetch/fetch-body.ts";
import { nextTick } from "../process/node-process.ts";

type Done = (error?: Error | null) => void;

/** A body that is sent while it is written. A stream writes one chunk at a time, and the next one when the last one was sent. */
class Upload implements BodySource {
  readonly #first: Uint8Array[];
  #chunk: Uint8Array | undefined;
  #done: Done | undefined;
  #isEnded = false;
  #isCancelled = false;
  #wake: (() => void) | undefined;

  /** @param first chunks that were written before */
  constructor(first: Uint8Array[]) {
    this.#first = first;
  }

  put(chunk: Uint8Array, done: Done): void {
    if (this.#isCancelled) {
      done();
      return;
    }
    this.#chunk = chunk;
    this.#done = inContext(done);
    this.#wake?.();
  }

  end(done: Done): void {
    if (this.#isCancelled) {
      done();
      return;
    }
    this.#isEnded = true;
    this.#done = inContext(done);
    this.#wake?.();
  }

  async next(): Promise<Uint8Array | undefined> {
    const first = this.#first.shift();
    if (first !== undefined) return first;
    // The last chunk has been sent.
    if (this.#chunk === undefined && !this.#isEnded) this.#settle();
    while (this.#chunk === undefined && !this.#isEnded && !this.#isCancelled) {
      const woken = Promise.withResolvers<void>();
      this.#wake = woken.resolve;
      await woken.promise;
    }
    const chunk = this.#chunk;
    this.#chunk = undefined;
    if (chunk === undefined) this.#settle();
    return chunk;
  }

  /** Discards what is still written. The server did not want it, or its response was complete without it. */
  cancel(): void {
    this.#isCancelled = true;
    this.#chunk = undefined;
    this.#first.length = 0;
    this.#settle();
    this.#wake?.();
  }

  /** Calls the callback of the last write in a microtask of its own, since the tool's listeners may throw. */
  #settle(): void {
    const done = this.#done;
    this.#done = undefined;
    if (done !== undefined) nextTick(done);
  }
}

/** The body of one request. It is kept until the exchange starts. */
export class RequestBody {
  /** True once the tool has written all of it. */
  isComplete = false;
  #parts: Uint8Array[] = [];
  #upload: Upload | undefined;
  #isTaken = false;
  #onEnd: Done | undefined;

  get isEmpty(): boolean {
    return this.#parts.length === 0;
  }

  /** Returns false if the exchange has started without a body. */
  put(chunk: Uint8Array, done: Done): boolean {
    if (this.#upload !== undefined) this.#upload.put(chunk, done);
    else {
      // The caller may use the memory again when the chunk is written.
      if (chunk.byteLength > 0 && !this.#isTaken) this.#parts.push(new Uint8Array(chunk));
      done();
    }
    return this.#upload !== undefined || !this.#isTaken || chunk.byteLength === 0;
  }

  end(done: Done): void {
    this.isComplete = true;
    if (this.#upload !== undefined) this.#upload.end(done);
    else if (this.#isTaken) done();
    else this.#onEnd = done;
  }

  /** Returns the body for the exchange. @param isWhole whether the tool will write no more of it */
  take(isWhole: boolean): readonly Uint8Array[] | BodySource | null {
    const parts = this.#parts;
    this.#parts = [];
    this.#isTaken = true;
    if (!isWhole) this.#upload = new Upload(parts);
    return this.#upload ?? (parts.length === 0 ? null : parts);
  }

  /** Completes the stream of a body that was whole when the exchange started. */
  finish(): void {
    this.#onEnd?.();
  }
}
