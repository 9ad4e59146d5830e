// Passes the chunks of a call to its reader: a bounded queue, and an async iterable around it that never rejects and ends with the
// ToolResult.

import { type JsonValue, type ToolError, toToolError } from "../../sandbox/contract/errors.ts";
import { STREAM_WINDOW } from "../../sandbox/protocol/guest-messages.ts";
import type { JsonTextLimits } from "../json/json-errors.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../json/parse-json.ts";
import type { Redactor } from "../observability/redaction/call-redactor.ts";
import { createStoppableGenerator } from "../util/stoppable-generator.ts";
import type { CpuAccount } from "../util/time-slicing.ts";
import type { ToolResult } from "./tool-call.ts";
import { type AttachmentReader, redactAttachments, type ToolValue, withBytes } from "./tool-value.ts";

/** A value that a streaming tool has yielded. */
export interface ToolChunk {
  readonly type: "chunk";
  readonly value: ToolValue;
}

/** The call's ToolResult, the last item of its stream. */
export type StreamedResult = ToolResult & { readonly type: "result" };
/** An item of a {@link ToolStream}: chunks, and the result as the last one. */
export type StreamItem = ToolChunk | StreamedResult;

/**
 * The chunks of a call as they arrive, then one ToolResult. Never rejects. A consumer that ends its loop early, or disposes the stream,
 * cancels the call.
 */
export type ToolStream = AsyncGenerator<StreamItem, void, undefined>;

/** An unparsed chunk: JSON text and its binary attachments. */
export interface RawChunk {
  readonly text: string | Buffer;
  readonly bytes?: AttachmentReader | undefined;
  /** The attachments as they were received: a BytesHeader as JSON text, and the bytes. */
  readonly attachments?: readonly [header: Buffer, data: Buffer] | undefined;
  /** Size in bytes. */
  readonly size: number;
}

/** How chunks are parsed; set when the call is prepared. */
export interface ChunkReading {
  readonly bounds: JsonTextLimits;
  readonly what: string;
  readonly signal: AbortSignal;
  readonly cpuAccount?: CpuAccount | undefined;
}

/** Number and size of consumed chunks after which the tool is notified that it can send more. */
const CREDIT = { chunks: STREAM_WINDOW.chunks / 4, bytes: STREAM_WINDOW.units / 4 } as const;
const CHUNK_CODES = { invalid: "OUTPUT_INVALID", tooLarge: "OUTPUT_TOO_LARGE" } as const;

/** Queue between the executor, which adds chunks, and the reader of the stream. */
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
  /** Size in bytes of all chunks received so far. */
  bytes = 0;
  reading: ChunkReading | undefined;

  /**
   * @param onTaken receives the number of chunks consumed since the last notification
   * @param redactor redacts the values that are secret at that time
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

  /** Ends the queue. Chunks that are waiting are still delivered. */
  close(): void {
    this.#isClosed = true;
    this.#wakeReader?.();
    this.#wakeWriter?.();
  }

  /** Resolves when there is room for another chunk, or when the reader has left. */
  async room(): Promise<void> {
    const isFull = (): boolean =>
      this.#waiting.length >= STREAM_WINDOW.chunks || this.#waitingBytes >= STREAM_WINDOW.units;
    while (!this.#isClosed && isFull()) {
      await new Promise<void>((resolve) => {
        this.#wakeWriter = resolve;
      });
    }
  }

  /** Returns the next chunk, or undefined after the last one. Supports one reader. */
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

/** Redacts values that capabilities have registered as secret so far. */
async function redactChunk({ text, bytes, size }: RawChunk, redactor: Redactor): Promise<RawChunk> {
  const filtered = await redactor.bytes(Buffer.from(text));
  return { text: filtered, bytes: bytes && (async () => redactAttachments(await bytes(), redactor)), size };
}

/** @throws {ToolError} OUTPUT_INVALID, OUTPUT_TOO_LARGE; may also reject with one of them or with the signal's reason */
async function readChunk(chunk: RawChunk, reading: ChunkReading, redactor: Redactor | undefined): Promise<ToolValue> {
  const { bounds, what, signal, cpuAccount } = reading;
  const { text, bytes } = redactor === undefined || redactor.isEmpty ? chunk : await redactChunk(chunk, redactor);
  const attachments = await bytes?.();
  const value: JsonValue = isSmallJson(text)
    ? parseSmallJson(text.toString(), bounds, CHUNK_CODES, what)
    : await parseLargeText(text, bounds, CHUNK_CODES, what, signal, cpuAccount);
  if (attachments === undefined) return value;
  return await withBytes({ value, textLength: text.length, attachments, what }, signal, cpuAccount);
}

/** Returns the result of a call that was ended because of an invalid chunk, or that had ended before the chunk was read. */
function toFailedResult(result: ToolResult, error: ToolError): ToolResult {
  if (!result.success && result.error.code !== "CANCELLED") return result;
  const { callId, toolName, toolVersion, durationMs, usage, logs, calls } = result;
  const metadata = {
    callId,
    toolName,
    durationMs,
    usage,
    logs,
    ...(toolVersion === undefined ? {} : { toolVersion }),
    ...(calls === undefined ? {} : { calls }),
  };
  return { ...metadata, success: false, error: error.toData(toolName) };
}

/** Starts the call and resolves with its result. Never rejects. `stop` cancels the call as its caller's signal would. */
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
    yield { type: "result", ...(failure === undefined ? result : toFailedResult(result, failure)) };
  } finally {
    // A consumer that stops early waits until the call has ended.
    stop.abort();
    await ending;
  }
}

/** Starts the call when its first item is requested. A `next()` that is pending when the reader leaves resolves with the result. */
export function createToolStream(start: StartCall): ToolStream {
  return createStoppableGenerator((stop) => read(start, stop));
}
