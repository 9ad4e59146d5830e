// Reads the event stream of an upstream server, within limits and in time slices, and returns a stream of stubs for the SDK's transport.
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { isThenable } from "../../../util/host-callback.ts";
import { EventReader, type ServerEvent } from "../reading/event-reader.ts";
import { readMessage } from "../reading/read-message.ts";
import { readingBudget } from "../reading/reading-budget.ts";
import type { MessageStubs } from "./message-stubs.ts";

/** A line over the limit is skipped. Reading fails if the line exceeds this many times the limit. */
const MAX_LONG_LINES = 16;

export interface EventStreamOptions {
  /** Limit for one message, in bytes. */
  readonly maxBytes: number;
  readonly stubs: MessageStubs;
}

/** Returns the events as stubs. Reads only as fast as the consumer takes them, so that backpressure blocks a faster server. */
export function toStubStream(
  body: ReadableStream<Uint8Array>,
  options: EventStreamOptions,
): ReadableStream<Uint8Array> {
  const source = body.getReader();
  const aborter = new AbortController();
  const unread = new Set<number>();
  const events = readStubs(source, options, aborter.signal, unread);
  const dropUnread = (): void => {
    for (const number of unread) options.stubs.drop(number);
    unread.clear();
  };
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          const { value, done } = await events.next();
          if (done === true) controller.close();
          else controller.enqueue(Buffer.from(value, "utf8"));
        } catch (thrown) {
          // Deferred, because the transport takes the last stubs before the error within this turn of the event loop.
          setImmediate(dropUnread);
          throw thrown;
        }
      },
      cancel: async (reason) => {
        aborter.abort();
        dropUnread();
        await source.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

/** Largest number of unread stubs of one stream. The transport reads about four ahead at most, so older ones are dropped. */
const MAX_UNREAD = 16;

/** Reads stubs and finally cancels the source: otherwise an error would leave the connection open. */
async function* readStubs(
  source: ReadableStreamDefaultReader<Uint8Array>,
  options: EventStreamOptions,
  signal: AbortSignal,
  unread: Set<number>,
): AsyncGenerator<string, void> {
  try {
    yield* readEvents(source, options, signal, unread);
  } finally {
    source.cancel().catch(() => {});
  }
}

async function* readEvents(
  source: ReadableStreamDefaultReader<Uint8Array>,
  { maxBytes, stubs }: EventStreamOptions,
  signal: AbortSignal,
  unread: Set<number>,
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
      // A message that is parsed over several turns of the event loop has its own time slices.
      const isSliced = isThenable(reading);
      const message = await reading;
      const wait = readingBudget.charge(isSliced ? performance.now() : began, message === undefined ? 0 : 1);
      if (wait !== undefined) await wait;
      const text = toText(event, message, reader.retryMs, stubs, unread);
      if (text !== undefined) yield text;
      began = performance.now();
    }
    if (reader.openBytes > MAX_LONG_LINES * maxBytes) {
      throw new RangeError(`Expected an event of at most ${maxBytes} bytes, got a line without an end`);
    }
  }
}

const isMessage = ({ name, data }: ServerEvent): boolean => name === "message" && ("head" in data || data.length > 0);

/** Returns the text of the event for the SDK's transport; undefined for an event that it would ignore. */
function toText(
  { id }: ServerEvent,
  message: JSONRPCMessage | undefined,
  retryMs: number | undefined,
  stubs: MessageStubs,
  unread: Set<number>,
): string | undefined {
  const stub = message === undefined ? undefined : stubs.put(message);
  if (stub !== undefined) {
    unread.add(stub.number);
    const [oldest] = unread;
    if (unread.size > MAX_UNREAD && oldest !== undefined) {
      unread.delete(oldest);
      stubs.drop(oldest);
    }
  } else if (id === undefined) return undefined;
  const resume = id === undefined ? "" : `id: ${id}\n`;
  const retry = retryMs === undefined ? "" : `retry: ${retryMs}\n`;
  return `${retry}${resume}data: ${stub?.text ?? ""}\n\n`;
}
