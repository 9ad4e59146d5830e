// A tool that yields: each chunk is made text and leaves as it comes, and the next one is asked for only while its reader has room.
import { STREAM_WINDOW } from "../../protocol/guest-messages.ts";
import { fromTextWithBytes } from "../bytes-text.ts";
import { capText, describeValue } from "../error-text.ts";
import { post, postWithBytes } from "../host.ts";
import { serialize, sizeOf } from "../json-output.ts";
import {
  append,
  JSONParse,
  PromiseConstructor,
  ReflectApply,
  SymbolAsyncIterator,
  secure,
  TypeErrorConstructor,
  Uint32ArrayConstructor,
} from "../primordials.ts";

type Iterator = { readonly next: unknown; readonly return?: unknown };

/** How a stream is read, and what has become of it. Written, not returned: what an async function returns is asked for its `then`. */
export interface Streaming {
  /** Whether chunks leave; else they are collected. */
  readonly isRead: boolean;
  readonly outputBytes: number;
  /** Of all chunks so far, as `sizeOf` counts. */
  size: number;
  /** What the generator returned; of one that returned nothing, the chunks, where they were collected. */
  value: unknown;
  /** It returned nothing. */
  isBare: boolean;
  /** Why the stream was ended before its end. */
  fault: "" | "unserializable" | "too-large";
  problem: string;
}

/** Chunks that left and were not taken, and their size; a ring of their sizes. */
let chunksOut = 0;
let unitsOut = 0;
let next = 0;
const sizes = new Uint32ArrayConstructor(STREAM_WINDOW.chunks);
let wake: (() => void) | undefined;

export function beginStream(isRead: boolean, outputBytes: number): Streaming {
  chunksOut = 0;
  unitsOut = 0;
  next = 0;
  wake = undefined;
  return { isRead, outputBytes, size: 0, value: undefined, isBare: false, fault: "", problem: "" };
}

/** Their reader has taken so many chunks. */
export function takeCredit(chunks: number): void {
  for (let left = chunks; left > 0 && chunksOut > 0; left -= 1) {
    unitsOut -= sizes[(next - chunksOut + STREAM_WINDOW.chunks) % STREAM_WINDOW.chunks] as number;
    chunksOut -= 1;
  }
  const resume = wake;
  if (resume === undefined || isFull()) return;
  wake = undefined;
  resume();
}

const isFull = (): boolean => chunksOut >= STREAM_WINDOW.chunks || unitsOut >= STREAM_WINDOW.units;

function room(): Promise<void> {
  return secure(
    new PromiseConstructor<void>((resolve) => {
      wake = resolve;
    }),
  );
}

/** One chunk on its way; false where the stream must end. */
function pass(value: unknown, streaming: Streaming, list: unknown[]): boolean {
  const { text, bytes, problem } = serialize(value);
  if (text === undefined) {
    streaming.fault = "unserializable";
    streaming.problem = problem;
    return false;
  }
  const size = sizeOf(text, bytes);
  streaming.size += size;
  if (streaming.size > streaming.outputBytes) {
    streaming.fault = "too-large";
    return false;
  }
  if (!streaming.isRead) {
    // A copy: a generator may yield the same object again and again.
    append(list, bytes === undefined ? JSONParse(text) : fromTextWithBytes(text, bytes));
    return true;
  }
  sizes[next] = size;
  next = (next + 1) % STREAM_WINDOW.chunks;
  chunksOut += 1;
  unitsOut += size;
  if (bytes === undefined) post("yield", text);
  else postWithBytes("yield", text, bytes.header, bytes.data);
  return true;
}

/** Reads it to its end. Rejects with what it throws. Awaits values of the guest, and promises of the prelude's own. */
export async function readStream(stream: object, streaming: Streaming): Promise<void> {
  const open = (stream as { readonly [SymbolAsyncIterator]: () => unknown })[SymbolAsyncIterator];
  const iterator = ReflectApply(open, stream, []) as Iterator;
  const step = iterator.next as () => unknown;
  const list: unknown[] = [];
  for (;;) {
    if (isFull()) await room();
    const result = (await (ReflectApply(step, iterator, []) as unknown)) as { done?: unknown; value?: unknown };
    if (typeof result !== "object" || result === null) {
      throw new TypeErrorConstructor(
        `Expected an iterator's result, an object, got ${capText(describeValue(result), 200)}`,
      );
    }
    if (result.done) {
      const returned = result.value;
      streaming.isBare = returned === undefined;
      streaming.value = returned === undefined && !streaming.isRead ? list : returned;
      return;
    }
    if (pass(result.value, streaming, list)) continue;
    // As `for await` does: it may have something to put away.
    const end = iterator.return;
    if (typeof end === "function") await (ReflectApply(end as () => unknown, iterator, []) as unknown);
    return;
  }
}
