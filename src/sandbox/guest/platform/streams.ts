// The Streams standard, whole: web-streams-polyfill's classes, which follow it step by step and take AbortController and DOMException
// from the guest's globals, where they are the prelude's.
import { ReadableStream } from "web-streams-polyfill";

// It derives its iterator from one of its own where it cannot make functions from text to find the engine's.
const iteratorPrototype = Object.getPrototypeOf(new ReadableStream().values()) as object;
const asyncIteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}.prototype)) as object;
Object.setPrototypeOf(iteratorPrototype, asyncIteratorPrototype);

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
