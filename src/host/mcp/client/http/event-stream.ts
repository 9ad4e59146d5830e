// The event stream of an upstream server, read within bounds and in slices of time, as a stream of stubs for the SDK's transport.
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { isThenable } from "../../../util/host-callback.ts";
import { EventReader, type ServerEvent } from "../reading/event-reader.ts";
import { readMessage } from "../reading/read-message.ts";
import { readingBudget } from "../reading/reading-budget.ts";
import type { MessageStubs } from "./message-stubs.ts";

/** Reads a line past the limit to its end, up to this many times the limit. */
const MAX_LONG_LINES = 16;

export interface EventStreamOptions {
  /** Limit for one message. */
  readonly maxBytes: number;
  readonly stubs: MessageStubs;
}

/** Reads only as fast as its reader takes the events: what is more waits in the connection, and then in the server. */
export function toStubStream(
  body: ReadableStream<Uint8Array>,
  options: EventStreamOptions,
): ReadableStream<Uint8Array> {
  const source = body.getReader();
  const aborter = new AbortController();
  const handed = new Set<number>();
  const events = readStubs(source, options, aborter.signal, handed);
  const dropHanded = (): void => {
    for (const number of handed) options.stubs.drop(number);
    handed.clear();
  };
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          const { value, done } = await events.next();
          if (done === true) controller.close();
          else controller.enqueue(Buffer.from(value, "utf8"));
        } catch (thrown) {
          // The transport may be about to take the last stubs before the error, which it does within this turn of the event loop.
          setImmediate(dropHanded);
          throw thrown;
        }
      },
      cancel: async (reason) => {
        aborter.abort();
        dropHanded();
        await source.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

/** Stubs of one stream that the transport may still have to read. It reads at most about four ahead, so older ones are dropped. */
const MAX_UNREAD = 16;

/** Cancels the source however the reading ends: otherwise an error would leave the connection open. */
async function* readStubs(
  source: ReadableStreamDefaultReader<Uint8Array>,
  options: EventStreamOptions,
  signal: AbortSignal,
  handed: Set<number>,
): AsyncGenerator<string, void> {
  try {
    yield* readEvents(source, options, signal, handed);
  } finally {
    source.cancel().catch(() => {});
  }
}

async function* readEvents(
  source: ReadableStreamDefaultReader<Uint8Array>,
  { maxBytes, stubs }: EventStreamOptions,
  signal: AbortSignal,
  handed: Set<number>,
): AsyncGenerator<string, void> {
  const reader = new EventReader(maxBytes);
  let began = performance.now();
  for (let piece = await source.read(); !piece.done; piece = await source.read()) {
    began = performance.now();
    const { buffer, byteOffset, byteLength } = piece.value;
    for (const event of reader.read(Buffer.from(buffer, byteOffset, byteLength))) {
      if (signal.aborted) return;
      if (event === undefined) {
        const wait = readingBudget.charge(began);
        if (wait !== undefined) await wait;
        began = performance.now();
        continue;
      }
      const reading = isMessage(event) ? readMessage(event.data, maxBytes, signal) : undefined;
      // What is parsed over several turns of the event loop has time slices of its own.
      const isSliced = isThenable(reading);
      const message = await reading;
      const wait = readingBudget.charge(isSliced ? performance.now() : began, message === undefined ? 0 : 1);
      if (wait !== undefined) await wait;
      const text = toText(event, message, reader.retryMs, stubs, handed);
      if (text !== undefined) yield text;
      began = performance.now();
    }
    if (reader.openBytes > MAX_LONG_LINES * maxBytes) {
      throw new RangeError(`Expected an event of at most ${maxBytes} bytes, got a line without an end`);
    }
  }
}

const isMessage = ({ name, data }: ServerEvent): boolean => name === "message" && ("head" in data || data.length > 0);

/** The event as the SDK's transport is to see it; undefined where that would see nothing. */
function toText(
  { id }: ServerEvent,
  message: JSONRPCMessage | undefined,
  retryMs: number | undefined,
  stubs: MessageStubs,
  handed: Set<number>,
): string | undefined {
  const stub = message === undefined ? undefined : stubs.put(message);
  if (stub !== undefined) {
    handed.add(stub.number);
    const [oldest] = handed;
    if (handed.size > MAX_UNREAD && oldest !== undefined) {
      handed.delete(oldest);
      stubs.drop(oldest);
    }
  } else if (id === undefined) return undefined;
  const resume = id === undefined ? "" : `id: ${id}\n`;
  const retry = retryMs === undefined ? "" : `retry: ${retryMs}\n`;
  return `${retry}${resume}data: ${stub?.text ?? ""}\n\n`;
}
