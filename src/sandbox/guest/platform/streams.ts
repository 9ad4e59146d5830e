// The Streams standard: the classes of web-streams-polyfill, which follow it step by step. They use AbortController and DOMException of the
// guest's globals, which are those of the prelude.
import { ReadableStream, WritableStream } from "web-streams-polyfill";
import { defineStreamStates } from "./stream-states.ts";

// Without dynamic code the package cannot find the engine's async iterator prototype, and uses its own.
const iteratorPrototype = Object.getPrototypeOf(new ReadableStream().values()) as object;
const asyncIteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}.prototype)) as object;
Object.setPrototypeOf(iteratorPrototype, asyncIteratorPrototype);
defineStreamStates(ReadableStream.prototype, WritableStream.prototype);

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
