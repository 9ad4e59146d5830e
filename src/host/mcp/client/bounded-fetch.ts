// fetch for upstream servers, whose answers are as long as they like to be: a body may be so long, and of an event stream each event.
import type { FetchLike } from "@modelcontextprotocol/client";

const NEW_LINE = 10;
const RETURN = 13;

/** Bytes since the last empty line: what a reader of events must keep. */
class EventMeter {
  #bytes = 0;
  /** Whether nothing has stood in this line yet. */
  #isLineEmpty = true;
  #afterReturn = false;

  /** The most that one event has come to. */
  add(chunk: Uint8Array): number {
    let most = 0;
    for (const byte of chunk) {
      const isEnd = byte === RETURN || (byte === NEW_LINE && !this.#afterReturn);
      this.#afterReturn = byte === RETURN;
      this.#bytes += 1;
      if (this.#bytes > most) most = this.#bytes;
      if (isEnd) {
        if (this.#isLineEmpty) this.#bytes = 0;
        this.#isLineEmpty = true;
      } else if (byte !== NEW_LINE) this.#isLineEmpty = false;
    }
    return most;
  }
}

function bound(maxBytes: number, isEvents: boolean): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  const events = new EventMeter();
  return new TransformStream({
    transform: (chunk, controller) => {
      bytes = isEvents ? events.add(chunk) : bytes + chunk.byteLength;
      if (bytes > maxBytes) controller.error(new RangeError(`Expected at most ${maxBytes} bytes in one message`));
      else controller.enqueue(chunk);
    },
  });
}

/** A body that is too long breaks off. */
export function createBoundedFetch(maxBytes: number): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (response.body === null) return response;
    const isEvents = /^text\/event-stream\b/i.test(response.headers.get("content-type") ?? "");
    const body = response.body.pipeThrough(bound(maxBytes, isEvents));
    const { status, statusText, headers } = response;
    const bounded = new Response(body, { status, statusText, headers });
    // Which redirects are followed is told by these.
    Object.defineProperties(bounded, {
      url: { value: response.url },
      type: { value: response.type },
      redirected: { value: response.redirected },
    });
    return bounded;
  };
}
