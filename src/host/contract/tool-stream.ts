// A call's chunks on their way to whoever reads them: a queue that its reader empties, and the async iterable around it, which never
// rejects and ends in the ToolResult.
import { type JsonValue, type ToolError, toToolError } from "../../sandbox/contract/errors.ts";
import { STREAM_WINDOW } from "../../sandbox/protocol/guest-messages.ts";
import type { JsonTextLimits } from "../json/json-errors.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../json/parse-json.ts";
import type { Redactor } from "../observability/redaction/redactor.ts";
import type { CpuAccount } from "../util/time-slicing.ts";
import type { ToolResult } from "./tool-call.ts";
import { type AttachmentReader, redactBeside, type ToolValue, withBytes } from "./tool-value.ts";

/** What a streaming tool has yielded. */
export interface ToolChunk {
  readonly type: "chunk";
  readonly value: ToolValue;
}

/** The call's ToolResult: the last item of its stream. */
export type StreamedResult = ToolResult & { readonly type: "result" };
export type StreamItem = ToolChunk | StreamedResult;

/** Chunks as they come, then the one ToolResult. Never rejects. Leaving it early, or disposing it, cancels the call. */
export type ToolStream = AsyncGenerator<StreamItem, void, undefined>;

/** A chunk that nobody has looked at: JSON text, and bytes that belong into it. */
export interface RawChunk {
  readonly text: string | Buffer;
  readonly bytes?: AttachmentReader | undefined;
  /** In bytes. */
  readonly size: number;
}

/** How chunks are read; stated once the call is prepared. */
export interface ChunkReading {
  readonly bounds: JsonTextLimits;
  readonly what: string;
  readonly signal: AbortSignal;
  readonly payer?: CpuAccount | undefined;
}

/** So many, or so much, taken by the reader is worth telling the tool. */
const CREDIT = { chunks: STREAM_WINDOW.chunks / 4, bytes: STREAM_WINDOW.units / 4 } as const;
const CHUNK_CODES = { invalid: "OUTPUT_INVALID", tooLarge: "OUTPUT_TOO_LARGE" } as const;

/** Between the one who fills it and the one who reads it. */
export class ChunkQueue {
  #waiting: RawChunk[] = [];
  #waitingBytes = 0;
  #isClosed = false;
  #wakeReader: (() => void) | undefined;
  #wakeWriter: (() => void) | undefined;
  #onTaken: ((chunks: number) => void) | undefined;
  #redactor: (() => Redactor | undefined) | undefined;
  #taken = 0;
  #takenBytes = 0;
  /** In bytes, of all chunks that have come. */
  bytes = 0;
  reading: ChunkReading | undefined;

  /**
   * @param onTaken hears how many more chunks the reader has taken, now and then
   * @param redactor tells what is concealed by now
   */
  open(onTaken: (chunks: number) => void, redactor: () => Redactor | undefined): void {
    this.#onTaken = onTaken;
    this.#redactor = redactor;
  }

  get redactor(): Redactor | undefined {
    return this.#redactor?.();
  }

  push(chunks: readonly RawChunk[]): void {
    if (this.#isClosed) return;
    for (const chunk of chunks) {
      this.#waiting.push(chunk);
      this.#waitingBytes += chunk.size;
      this.bytes += chunk.size;
    }
    this.#wakeReader?.();
  }

  /** No more chunks come; those that wait are still read. */
  close(): void {
    this.#isClosed = true;
    this.#wakeReader?.();
    this.#wakeWriter?.();
  }

  /** Resolves when there is room for another chunk, or when nobody reads any more. */
  async room(): Promise<void> {
    const isFull = (): boolean =>
      this.#waiting.length >= STREAM_WINDOW.chunks || this.#waitingBytes >= STREAM_WINDOW.units;
    while (!this.#isClosed && isFull()) {
      await new Promise<void>((resolve) => {
        this.#wakeWriter = resolve;
      });
    }
  }

  /** Undefined after the last one. For one reader. */
  async next(): Promise<RawChunk | undefined> {
    while (this.#waiting.length === 0 && !this.#isClosed) {
      await new Promise<void>((resolve) => {
        this.#wakeReader = resolve;
      });
    }
    const chunk = this.#waiting.shift();
    if (chunk !== undefined) this.#take(chunk.size);
    return chunk;
  }

  #take(size: number): void {
    this.#waitingBytes -= size;
    this.#taken += 1;
    this.#takenBytes += size;
    this.#wakeWriter?.();
    if (this.#isClosed || (this.#taken < CREDIT.chunks && this.#takenBytes < CREDIT.bytes)) return;
    this.#onTaken?.(this.#taken);
    this.#taken = 0;
    this.#takenBytes = 0;
  }
}

/** What capabilities have concealed by now is not in it. */
async function redacted({ text, bytes, size }: RawChunk, redactor: Redactor): Promise<RawChunk> {
  const filtered = await redactor.bytes(Buffer.from(text));
  return { text: filtered, bytes: bytes && (async () => redactBeside(await bytes(), redactor)), size };
}

/** @throws {ToolError} OUTPUT_INVALID, OUTPUT_TOO_LARGE, or rejects with one or with the signal's reason */
async function readChunk(chunk: RawChunk, reading: ChunkReading, redactor: Redactor | undefined): Promise<ToolValue> {
  const { bounds, what, signal, payer } = reading;
  const { text, bytes } = redactor === undefined || redactor.isIdle ? chunk : await redacted(chunk, redactor);
  const beside = await bytes?.();
  const value: JsonValue = isSmallJson(text)
    ? parseSmallJson(text.toString(), bounds, CHUNK_CODES, what)
    : await parseLargeText(text, bounds, CHUNK_CODES, what, signal, payer);
  if (beside === undefined) return value;
  return await withBytes({ value, units: text.length, beside, what }, signal, payer);
}

/** The result of a call that was ended because of what it yielded, or had ended before that was read. */
function failed(result: ToolResult, error: ToolError): ToolResult {
  if (!result.success && result.error.code !== "CANCELLED") return result;
  const { callId, toolName, durationMs, usage, logs, calls } = result;
  const facts = { callId, toolName, durationMs, usage, logs, ...(calls === undefined ? {} : { calls }) };
  return { ...facts, success: false, error: error.toData(toolName) };
}

/** Starts the call; resolves with its result, never rejects. `stop` ends it as its caller's own signal would. */
type StartCall = (chunks: ChunkQueue, stop: AbortSignal) => Promise<ToolResult>;

async function* read(start: StartCall, stop: AbortController): ToolStream {
  const chunks = new ChunkQueue();
  const ending = start(chunks, stop.signal);
  void ending.then(() => chunks.close());
  let failure: ToolError | undefined;
  try {
    while (failure === undefined) {
      const chunk = await chunks.next();
      if (chunk === undefined) break;
      let value: ToolValue;
      try {
        value = await readChunk(chunk, chunks.reading as ChunkReading, chunks.redactor);
      } catch (thrown) {
        failure = toToolError(thrown);
        stop.abort(failure);
        break;
      }
      yield { type: "chunk", value };
    }
    const result = await ending;
    yield { type: "result", ...(failure === undefined ? result : failed(result, failure)) };
  } finally {
    // Whoever leaves early waits until nothing of it runs.
    stop.abort();
    await ending;
  }
}

/** The call begins when its first item is asked for. */
export function createToolStream(start: StartCall): ToolStream {
  const stop = new AbortController();
  const items = read(start, stop);
  const leave = (): Promise<IteratorResult<StreamItem, void>> => {
    // Also when an item is being waited for: that is then the result.
    stop.abort();
    return items.return();
  };
  const stream: ToolStream = {
    next: () => items.next(),
    return: leave,
    throw: leave,
    [Symbol.asyncIterator]: () => stream,
    [Symbol.asyncDispose]: async () => {
      await leave();
    },
  };
  return stream;
}
