// The Streams standard: the classes of web-streams-polyfill, which follow it step by step. They use AbortController and DOMException of the
// guest's globals, which are those of the prelude.
import { ReadableStream, TransformStream, WritableStream } from "web-streams-polyfill";
import { pickFields, showAs } from "../fetch/fetch-inspect.ts";
import { defineStreamStates } from "./stream-states.ts";

// Without dynamic code the package cannot find the engine's async iterator prototype, and uses its own.
const iteratorPrototype = Object.getPrototypeOf(new ReadableStream().values()) as object;
const asyncIteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}.prototype)) as object;
Object.setPrototypeOf(iteratorPrototype, asyncIteratorPrototype);
defineStreamStates(ReadableStream.prototype, WritableStream.prototype);

/** The fields of the package. */
interface StreamFields {
  readonly _state?: unknown;
  readonly _readableStreamController?: { readonly autoAllocateChunkSize?: unknown; readonly byobRequest?: unknown };
}
const stateOf = (stream: object): unknown => (stream as StreamFields)._state;
const isByteStream = (stream: object): boolean =>
  "byobRequest" in ((stream as StreamFields)._readableStreamController ?? {});
showAs("ReadableStream", ReadableStream, (stream) => {
  const { locked } = stream;
  return { locked, state: stateOf(stream), supportsBYOB: isByteStream(stream) };
});
showAs("WritableStream", WritableStream, (stream) => ({ locked: stream.locked, state: stateOf(stream) }));
showAs("TransformStream", TransformStream, (stream) => pickFields(stream, ["readable", "writable"]));

export {
  ByteLengthQueuingStrategy,
  CountQueuingStrategy,
  ReadableByteStreamController,
  ReadableStream,
  ReadableStreamBYOBReader,
  ReadableStreamBYOBRequest,
  ReadableStreamDefaultController,
  ReadableStreamDefaultReader,
  TransformStream,
  TransformStreamDefaultController,
  WritableStream,
  WritableStreamDefaultController,
  WritableStreamDefaultWriter,
} from "web-streams-polyfill";
