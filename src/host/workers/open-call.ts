// One call in a worker process, as the host sees it: which messages may come next, how much of each, and what it has cost.

import type { ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import { STREAM_WINDOW } from "../../sandbox/protocol/guest-messages.ts";
import type { EndedMessage, LogLevel, WorkerMessage } from "../../sandbox/protocol/messages.ts";
import type { RawChunk } from "../contract/tool-stream.ts";
import { toRawChunks } from "./chunk-lines.ts";

/** Why a call has no end of its own. */
export interface CallLossReason {
  /** A line of the tool may have run for this call. */
  readonly begun: boolean;
  /** Its process passed its memory, or ended itself for want of it, while this call was alone in it. */
  readonly outOfMemory?: boolean;
  /** The tool may be what ended the process. */
  readonly isSuspect?: boolean;
  /** Why it was given up before it had begun. */
  readonly cause?: ToolError;
  /** No process could be had at all. */
  readonly isNotStarted?: boolean;
}

/** Hears what becomes of one call. After `onEnded` or `onLost` nothing more comes, but for `onStuck`. */
export interface CallListener {
  /** `place` is `script:line:column` in the isolate, where it was asked for. */
  onLog(level: LogLevel, time: number, text: string, place?: string): void;
  onProgress(text: string): void;
  /** `answer` reaches this very run of the call, and nothing once it is over. */
  onCapability(name: string, text: string, answer: (envelope: string) => void): void;
  /** What the tool has yielded; undefined where nobody has asked for it as it comes. */
  readonly onChunks?: ((chunks: readonly RawChunk[]) => void) | undefined;
  /** The process is up and has the call: what it waited for was not the tool's doing. */
  onPlaced(): void;
  /** Its isolate is ready, or it has run for a while: from now on its time is the tool's own. */
  onStarted?(): void;
  /** `peakBytes`: by how much its process had grown at the most while it ran; 0 where that cannot be seen. */
  onEnded(message: EndedMessage, parts: readonly Buffer[], peakBytes: number): void;
  onLost(loss: CallLossReason, peakBytes: number): void;
  /** Whoever inspects it holds it, or lets it go on: meanwhile none of its time passes. */
  onHeld(isHeld: boolean): void;
  /** Of a call that is watched: whether its guest waits for the host and does nothing else. Its process's own word. */
  onIdle?(isIdle: boolean): void;
  /** It has ended, but would not stop: its process is killed for it. */
  onStuck(): void;
}

/** A well-behaved worker sends no more than this many progress reports of one call. */
const PROGRESS_REPORTS = 10_000;
/** Of requests that are not host calls. How many a call may have waiting is bounded; this ends a flood that is nobody's need. */
const UNCOUNTED_REQUESTS = 1_000_000;
/** One line of a log may pass what is left of `logBytes` by this much. */
const LOG_LINE_BYTES = 128 * 1024;
/** Of an outcome that is no output: a well-behaved worker sends 256 Ki units at most. 79 MB of it held the host up for 1.6 s. */
const MAX_END_BYTES = 1024 * 1024;
const PROGRESS_BYTES = 16_384;

/** What a worker says of one call. */
export type CallMessage = Exclude<
  WorkerMessage,
  { type: "inspected" | "inspect-open" | "ready" | "python-ready" | "pong" | "stuck" | "chunk-caches" }
>;
type CallState = "sent" | "preparing" | "started" | "ended";

export interface OpenCallOptions {
  readonly listener: CallListener;
  readonly limits: Limits;
  /** Which warm isolate may take it up without a word; a new one is announced first. */
  readonly warmKey: string | undefined;
  /** Whose isolate it runs in. */
  readonly session?: number | undefined;
  /** Resident memory of the process when the call came, in bytes. */
  readonly rssBytes: number;
  /** CPU time that the process had used by then, in ms. */
  readonly cpuMs: number;
  /** A capability of its tool has inputs that are not counted as host calls. */
  readonly hasUncounted?: boolean;
}

export class OpenCall {
  readonly listener: CallListener;
  readonly limits: Limits;
  readonly warmKey: string | undefined;
  readonly session: number | undefined;
  /** CPU time that its process had used when it came, in ms. */
  readonly cpuMsBefore: number;
  #rssBefore: number;
  #peakRss: number;
  #state: CallState = "sent";
  /** There has been a message that a tool's own line may have caused. */
  #hasSpoken = false;
  #logLines = 0;
  #logBytes = 0;
  #progressReports = 0;
  #idleReports = 0;
  #requests = 0;
  /** Chunks that have come and were not taken. */
  #chunksOut = 0;
  #chunks = 0;
  #chunkBytes = 0;
  readonly #maxRequests: number;
  #releaseTimer: NodeJS.Timeout | undefined;
  /** Which frame it went with; see FrameWriter. */
  frame = 0;
  isCancelled = false;
  /** How many answers of its caller it waits for. */
  resting = 0;

  constructor({ listener, limits, warmKey, session, rssBytes, cpuMs, hasUncounted = false }: OpenCallOptions) {
    this.#maxRequests = limits.hostCalls + limits.logLines + (hasUncounted ? UNCOUNTED_REQUESTS : 0);
    this.cpuMsBefore = cpuMs;
    this.listener = listener;
    this.limits = limits;
    this.warmKey = warmKey;
    this.session = session;
    this.#rssBefore = rssBytes;
    this.#peakRss = rssBytes;
  }

  get hasEnded(): boolean {
    return this.#state === "ended";
  }

  /** It has been ended and has not stopped yet. */
  get isReleasing(): boolean {
    return this.#releaseTimer !== undefined;
  }

  /** By how much its process has grown at the most since the call came. */
  get peakBytes(): number {
    return Math.max(0, this.#peakRss - this.#rssBefore);
  }

  /** Its process is up only now: what it had then is not the call's. */
  startMeter(rssBytes: number): void {
    this.#rssBefore = rssBytes;
    this.#peakRss = rssBytes;
  }

  meter(rssBytes: number): void {
    if (rssBytes > this.#peakRss) this.#peakRss = rssBytes;
  }

  /**
   * Whether a line of the tool may have run for this call, which its process may have read: in doubt it has.
   * @param isHeardOut whether all that its process has ever said has been read
   */
  hasBegun(isHeardOut: boolean): boolean {
    if (this.#state === "preparing") return false;
    return this.#state === "started" || this.#hasSpoken || this.warmKey !== undefined || !isHeardOut;
  }

  /** So many more of its chunks have been taken, and as many more may come. */
  credit(chunks: number): void {
    this.#chunksOut -= chunks;
  }

  #receiveChunks(parts: readonly Buffer[]): void {
    const { onChunks } = this.listener;
    if (onChunks === undefined) throw new Error("The worker sent chunks that nobody has asked for");
    const chunks = toRawChunks(parts);
    const { outputBytes, jsonValues } = this.limits;
    this.#chunksOut = bound(this.#chunksOut + chunks.length, STREAM_WINDOW.chunks);
    this.#chunks = bound(this.#chunks + chunks.length, jsonValues);
    for (const { size } of chunks) this.#chunkBytes = bound(this.#chunkBytes + size, outputBytes);
    onChunks(chunks);
  }

  /** Calls back when the call has not been released in time. */
  expectRelease(withinMs: number, onStuck: () => void): void {
    this.#releaseTimer ??= setTimeout(onStuck, withinMs);
  }

  release(): void {
    clearTimeout(this.#releaseTimer);
    this.#releaseTimer = undefined;
  }

  /**
   * One message, in an order that makes sense or not at all.
   * @throws {Error} for a message that no worker of ours sends
   */
  receive(
    message: CallMessage,
    parts: readonly Buffer[],
    deliver: (requestId: number, envelope: string) => void,
  ): void {
    if ((message.type === "released") !== this.hasEnded) throw new Error("The worker's messages are out of order");
    const { listener, limits } = this;
    // What a tool has caused, it has begun to cause.
    if (message.type !== "preparing") this.#hasSpoken = true;
    switch (message.type) {
      case "preparing":
        this.#advance(["sent"], "preparing");
        break;
      case "started":
        this.#advance(["sent", "preparing"], "started");
        listener.onStarted?.();
        break;
      case "log":
        this.#logLines = bound(this.#logLines + 1, limits.logLines);
        this.#logBytes = bound(this.#logBytes + (parts[0]?.length ?? 0), limits.logBytes * 4 + LOG_LINE_BYTES);
        listener.onLog(message.level, message.time, text(parts, limits.logBytes * 4), message.place);
        break;
      case "progress":
        this.#progressReports = bound(this.#progressReports + 1, PROGRESS_REPORTS);
        listener.onProgress(text(parts, PROGRESS_BYTES));
        break;
      case "capability":
        this.#requests = bound(this.#requests + 1, this.#maxRequests);
        listener.onCapability(message.name, text(parts, limits.inputBytes * 4), (envelope) =>
          deliver(message.requestId, envelope),
        );
        break;
      case "idle":
        this.#idleReports = bound(this.#idleReports + 1, UNCOUNTED_REQUESTS);
        listener.onIdle?.(message.isIdle);
        break;
      case "chunks":
        this.#receiveChunks(parts);
        break;
      case "ended":
        if (message.outcome !== "output") bound(parts[0]?.length ?? 0, MAX_END_BYTES);
        this.#state = "ended";
        listener.onEnded(message, parts, this.peakBytes);
        break;
      case "released":
        break;
    }
  }

  #advance(from: readonly CallState[], to: CallState): void {
    if (!from.includes(this.#state)) throw new Error("The worker's messages are out of order");
    this.#state = to;
  }
}

function bound(count: number, most: number): number {
  if (count > most) throw new Error("The worker sent more than its call may cause");
  return count;
}

function text(parts: readonly Buffer[], maxBytes: number): string {
  const [part] = parts;
  if (part === undefined || part.length > maxBytes)
    throw new Error("A part of the worker's message is missing or too long");
  return part.toString();
}
