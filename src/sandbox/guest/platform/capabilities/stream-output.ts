// Reads the output of a tool that yields. Each chunk is serialized and sent at once. The next one is requested only while the reader has
// room.
import { STREAM_WINDOW } from "../../../protocol/guest-messages.ts";
import { fromTextWithBytes } from "../../bytes-text.ts";
import { describeValue, truncateText } from "../../error-text.ts";
import { post, postWithBytes } from "../../host.ts";
import { serialize, sizeOf } from "../../json-output.ts";
import { warnAboutLost } from "../../lost-values.ts";
import {
  append,
  JSONParse,
  PromiseConstructor,
  ReflectApply,
  SymbolAsyncIterator,
  secure,
  TypeErrorConstructor,
  Uint32ArrayConstructor,
} from "../../primordials.ts";

type Iterator = { readonly next: unknown; readonly return?: unknown };

/** State of a stream. Results are stored here instead of returned, because the return value of an async function is checked for `then`. */
export interface Streaming {
  /** True if chunks are sent. Otherwise they are collected. */
  readonly isRead: boolean;
  readonly outputBytes: number;
  /** Total size of all chunks so far, as `sizeOf` counts. */
  size: number;
  /** The return value of the generator or, if it returned nothing, the collected chunks. */
  value: unknown;
  /** True if the generator returned nothing. */
  isBare: boolean;
  /** Reason why the stream was stopped early. */
  fault: "" | "unserializable" | "too-large";
  problem: string;
}

/** Number and total size of the chunks that were sent and not acknowledged, and a ring buffer of their sizes. */
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

/** Handles the reader's acknowledgement of a number of chunks. */
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

/** Sends one chunk. Returns false if the stream must stop. */
function pass(value: unknown, streaming: Streaming, list: unknown[]): boolean {
  const { text, bytes, problem } = serialize(value);
  if (text === undefined) {
    streaming.fault = "unserializable";
    streaming.problem = problem;
    return false;
  }
  warnAboutLost("The chunk", value, text);
  const size = sizeOf(text, bytes);
  streaming.size += size;
  if (streaming.size > streaming.outputBytes) {
    streaming.fault = "too-large";
    return false;
  }
  if (!streaming.isRead) {
    // A copy, because a generator may yield the same object repeatedly.
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

/** Reads the stream to its end. Rejects with what the stream throws. Awaits values of the guest and promises of the prelude. */
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
        `Expected an iterator's result, an object, got ${truncateText(describeValue(result), 200)}`,
      );
    }
    if (result.done) {
      const returned = result.value;
      streaming.isBare = returned === undefined;
      streaming.value = returned === undefined && !streaming.isRead ? list : returned;
      return;
    }
    if (pass(result.value, streaming, list)) continue;
    // As in `for await`: the iterator may have to clean up.
    const end = iterator.return;
    if (typeof end === "function") await (ReflectApply(end as () => unknown, iterator, []) as unknown);
    return;
  }
}
