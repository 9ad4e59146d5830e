// The body of a request or a response, whose bytes are known or still arriving. A stream is created only when a reader needs one.

import type { ReadableByteStreamController } from "../streams/streams.ts";
import { concat, isDisturbed, type Stream, streams } from "./fetch-platform.ts";

/** A source of bytes that are still arriving. Only one `next` may be pending. */
export interface BodySource {
  /** Resolves with undefined at the end. */
  next(): Promise<Uint8Array | undefined>;
  /** Synchronous `next`. It avoids a promise, because resolving one looks up `then`, which the guest can observe. */
  nextNow?(): Uint8Array | undefined;
  cancel(reason: unknown): Promise<void> | void;
}

/** Returns copies of the parts: streams take ownership of the buffers that are put into them. */
function sourceOfParts(parts: readonly Uint8Array[]): BodySource {
  let index = 0;
  const nextNow = (): Uint8Array | undefined => {
    const part = parts[index];
    if (part === undefined) return undefined;
    index += 1;
    return part.slice();
  };
  return {
    next: async () => nextNow(),
    nextNow,
    cancel: () => {
      index = parts.length;
    },
  };
}

function sourceOfStream(stream: Stream): BodySource {
  const reader = stream.getReader();
  return {
    next: async () => {
      const { done, value } = await reader.read();
      if (done) return undefined;
      // The chunk belongs to the creator of the stream, so the reader receives a copy.
      if (value instanceof Uint8Array) return value.slice();
      const problem = new TypeError(`Expected the chunks of a body to be Uint8Arrays, got ${typeof value}`);
      reader.cancel(problem).catch(() => {});
      throw problem;
    },
    cancel: (reason) => reader.cancel(reason),
  };
}

declare function structuredClone(value: unknown): Uint8Array;

/** Tells whether the stream accepts bytes only. The tee of such a stream copies its chunks. */
function takesBytesOnly(stream: Stream): boolean {
  try {
    stream.getReader({ mode: "byob" }).releaseLock();
    return true;
  } catch {
    return false;
  }
}

/** Wraps a branch of a tee for a clone, so that its chunks share no memory with the other branch (Fetch standard). */
function cloningChunks(branch: Stream): Stream {
  const reader = branch.getReader();
  return new (streams().ReadableStream)<Uint8Array>(
    {
      start: (controller) => {
        reader.closed.catch((reason: unknown) => controller.error(reason));
      },
      pull: async (controller) => {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(structuredClone(value));
      },
      cancel: (reason) => reader.cancel(reason),
    },
    NO_QUEUE,
  );
}

export class Body {
  /** All bytes, if they are known. Clones share them, so they are never handed out themselves. */
  readonly parts: readonly Uint8Array[] | undefined;
  #source: BodySource | undefined;
  #stream: Stream | undefined;
  #controller: ReadableByteStreamController | undefined;
  #isUsed = false;

  private constructor(parts: readonly Uint8Array[] | undefined, source?: BodySource, stream?: Stream) {
    this.parts = parts;
    this.#source = source;
    this.#stream = stream;
  }

  static ofParts(parts: readonly Uint8Array[]): Body {
    return new Body(parts, sourceOfParts(parts));
  }

  static ofSource(source: BodySource): Body {
    return new Body(undefined, source);
  }

  static ofStream(stream: Stream): Body {
    return new Body(undefined, undefined, stream);
  }

  /** `bodyUsed`: true once the body was read from or cancelled. */
  get isUsed(): boolean {
    return this.#isUsed || (this.#stream !== undefined && isDisturbed(this.#stream));
  }

  get isUnusable(): boolean {
    return this.isUsed || this.#stream?.locked === true;
  }

  get stream(): Stream {
    this.#stream ??= this.#makeStream();
    return this.#stream;
  }

  #makeStream(): Stream {
    const source = this.#source as BodySource;
    if (this.#isUsed) {
      // The body has already been taken, so its stream is locked and at its end.
      const stream = new (streams().ReadableStream)(emptySource, NO_QUEUE);
      stream
        .getReader()
        .cancel()
        .catch(() => {});
      return stream;
    }
    return new (streams().ReadableStream)(
      {
        type: "bytes",
        start: (controller: ReadableByteStreamController) => {
          this.#controller = controller;
        },
        pull: async (controller: ReadableByteStreamController) => {
          let bytes: Uint8Array | undefined;
          // A byte stream does not accept empty chunks.
          do bytes = source.nextNow === undefined ? await source.next() : source.nextNow();
          while (bytes?.byteLength === 0);
          if (bytes !== undefined) controller.enqueue(bytes);
          else {
            controller.close();
            controller.byobRequest?.respond(0);
          }
        },
        cancel: (reason) => source.cancel(reason),
      },
      NO_QUEUE,
    );
  }

  /**
   * Takes the bytes permanently.
   * @param message that of the error
   * @throws {TypeError} when the body has already been taken, or is locked by a reader
   */
  take(message = "Body is unusable: Body has already been read"): BodySource {
    if (this.isUnusable) throw new TypeError(message);
    this.#isUsed = true;
    if (this.#stream !== undefined) return sourceOfStream(this.#stream);
    return this.#source as BodySource;
  }

  /** Moves the contents to a new body, which is returned. */
  moved(message: string): Body {
    const { parts } = this;
    const source = this.take(message);
    return parts === undefined ? Body.ofSource(source) : Body.ofParts(parts);
  }

  /** The caller must check first that the body is usable. */
  clone(): Body {
    if (this.parts !== undefined) return Body.ofParts(this.parts);
    const [mine, theirs] = this.stream.tee();
    this.#stream = mine;
    return Body.ofStream(takesBytesOnly(this.stream) ? theirs : cloningChunks(theirs));
  }

  /** Reports an error to readers of the stream. The source reports it to readers without a stream. */
  fail(reason: unknown): void {
    this.#controller?.error(reason);
  }
}

const NO_QUEUE = { highWaterMark: 0 } as const;
const emptySource = { type: "bytes" } as const;

export async function readAll(source: BodySource): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  for (let bytes = await source.next(); bytes !== undefined; bytes = await source.next()) parts.push(bytes);
  const [only] = parts;
  const ownsBuffer = parts.length === 1 && only?.byteLength === only?.buffer.byteLength;
  return ownsBuffer ? (only as Uint8Array<ArrayBuffer>) : concat(parts);
}
