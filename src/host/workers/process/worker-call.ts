// Tracks one call in a worker process: which messages the host accepts next, how many and how large, and what the call
// has cost.

import type { Limits } from "../../../sandbox/contract/limits.ts";
import { STREAM_WINDOW } from "../../../sandbox/protocol/guest-messages.ts";
import { MAX_MAIN_THREAD_MS } from "../../../sandbox/protocol/host-messages.ts";
import { MAX_TURNS_LENGTH } from "../../../sandbox/protocol/turns.ts";
import type { WorkerMessage } from "../../../sandbox/protocol/worker-messages.ts";
import { RunningTimer } from "../../util/running-timer.ts";
import type { CallListener, CapabilityRequest } from "./call-events.ts";
import { toRawChunks } from "./chunk-lines.ts";

/** Maximum number of progress reports of one call. A correct worker never exceeds it. */
const PROGRESS_REPORTS = 10_000;

/** Maximum number of reports of spans of one call, and maximum size of one in bytes. A correct worker never exceeds them. */
const SPAN_REPORTS = 2_000;

const SPAN_BYTES = 4 * 32_768;

/** Requests that do not count as capability calls. Pending requests are bounded elsewhere; this limit ends a flood. */
const UNCOUNTED_REQUESTS = 1_000_000;

/** Bytes by which one log line may exceed the rest of `logBytes`. */
const LOG_LINE_BYTES = 128 * 1024;

/**
 * Largest outcome other than an output. A correct worker sends at most 256 Ki UTF-16 code units; 79 MB blocked the host
 * for 1.6 s.
 */
const MAX_END_BYTES = 1024 * 1024;

const PROGRESS_BYTES = 16_384;

/** A worker's message about one call. */
export type CallMessage = Exclude<
  WorkerMessage,
  { type: "inspected" | "inspect-open" | "ready" | "python-ready" | "pong" | "stuck" | "module-caches" }
>;

type CapabilityMessage = Extract<WorkerMessage, { type: "capability" }>;

type Deliver = (requestId: number, envelope: string, latencyMs?: number) => void;

type CallState = "sent" | "preparing" | "started" | "ended";

export interface OpenCallOptions {
  /** Number of the call in its process. */
  readonly seq: number;
  readonly listener: CallListener;
  readonly limits: Limits;
  /** Key of the warm isolate that may take the call without announcing it. A new isolate is announced first. */
  readonly warmKey: string | undefined;
  /** The session whose isolate it runs in. */
  readonly session?: number | undefined;
  /** Resident memory of the process when the call was sent, in bytes. */
  readonly rssBytes: number;
  /** CPU time of the process when the call was sent, in ms. */
  readonly cpuMs: number;
  /** A capability of the tool has methods that do not count as capability calls. */
  readonly hasUncounted?: boolean;
  /** Returns how long the call may still run, in ms. Set if it may run on the main thread of its process. */
  readonly leftMs?: (() => number) | undefined;
}

/** Time in ms that a call on the main thread gets beyond its deadline, so that the host's own deadline comes first. */
const MAIN_THREAD_SLACK_MS = 20;

/** Time in ms after which a call on the main thread, of which no message has arrived, counts as begun. */
const BEGUN_AFTER_MS = 10;

export class WorkerCall {
  readonly seq: number;
  readonly listener: CallListener;
  readonly limits: Limits;
  readonly warmKey: string | undefined;
  readonly session: number | undefined;
  /** CPU time of the process when the call was sent, in ms. */
  readonly cpuMsBefore: number;
  #rssBefore: number;
  #peakRss: number;
  #state: CallState = "sent";
  /** A message has arrived that the tool's own code may have caused. */
  #mayHaveRun = false;
  #logLines = 0;
  #logBytes = 0;
  #progressReports = 0;
  #spanReports = 0;
  #idleReports = 0;
  #requests = 0;
  #turnsLength = 0;
  /** Chunks received for which the reader has not granted credit. */
  #chunksOut = 0;
  #chunks = 0;
  #chunkBytes = 0;
  readonly #maxRequests: number;
  #releaseTimer: RunningTimer | undefined;
  /** Number of the frame that carried the call; see FrameWriter. */
  frame = 0;
  isCancelled = false;
  /** Time of its start, by performance.now(). */
  readonly startedAt: number = performance.now();
  readonly #leftMs: (() => number) | undefined;
  /** Messages that the call processes on the main thread of its process, which reads no other message meanwhile. */
  #entries = 0;
  /** Number of answers of its caller that the call waits for. */
  pauses = 0;
  /** Number of calls of tools whose results the call waits for. */
  nested = 0;

  constructor({
    seq,
    listener,
    limits,
    warmKey,
    session,
    rssBytes,
    cpuMs,
    hasUncounted = false,
    leftMs,
  }: OpenCallOptions) {
    this.seq = seq;
    this.#leftMs = leftMs;
    this.#maxRequests = limits.maxCapabilityCalls + limits.logLines + (hasUncounted ? UNCOUNTED_REQUESTS : 0);
    this.cpuMsBefore = cpuMs;
    this.listener = listener;
    this.limits = limits;
    this.warmKey = warmKey;
    this.session = session;
    this.#rssBefore = rssBytes;
    this.#peakRss = rssBytes;
  }

  /** Whether the call keeps its process from reading messages. */
  get runsOnMainThread(): boolean {
    return this.#entries > 0 && this.#state !== "ended";
  }

  /** Remaining time of the call in ms, if it may run on the main thread. */
  get leftMs(): number | undefined {
    return this.#leftMs?.();
  }

  /**
   * Counts a message that the call processes on the main thread. Returns the longest time there in ms, or undefined if
   * the call may not run there.
   */
  enterMainThread(): number | undefined {
    const { leftMs } = this;
    if (leftMs === undefined) return undefined;
    this.#entries += 1;
    return Math.min(MAX_MAIN_THREAD_MS, Math.max(1, Math.ceil(leftMs)) + MAIN_THREAD_SLACK_MS);
  }

  get hasEnded(): boolean {
    return this.#state === "ended";
  }

  /** The call has ended or is cancelled, but has not stopped. In a process that still starts, a cancelled call begins later. */
  get isReleasing(): boolean {
    return this.#releaseTimer !== undefined || (this.isCancelled && !this.hasEnded);
  }

  /** Largest growth of the process since the call was sent, in bytes. */
  get peakBytes(): number {
    return Math.max(0, this.#peakRss - this.#rssBefore);
  }

  /** Restarts the measurement when the process is up, since memory used before is not the call's. */
  startMeter(rssBytes: number): void {
    this.#rssBefore = rssBytes;
    this.#peakRss = rssBytes;
  }

  meter(rssBytes: number): void {
    if (rssBytes > this.#peakRss) this.#peakRss = rssBytes;
  }

  /**
   * Returns whether code of the tool may have run for this call, assuming that the process has read the call. Returns
   * true in doubt.
   * @param isDrained whether everything that the process sent has been read
   */
  hasBegun(isDrained: boolean): boolean {
    if (this.#state === "preparing") return false;
    if (this.#state === "started" || this.#mayHaveRun || this.warmKey !== undefined || !isDrained) return true;
    return this.runsOnMainThread && performance.now() - this.startedAt > BEGUN_AFTER_MS;
  }

  /** Allows `chunks` more chunks, because the reader has taken as many. */
  credit(chunks: number): void {
    this.#chunksOut -= chunks;
  }

  #receiveChunks(parts: readonly Buffer[]): void {
    const { onChunks } = this.listener;
    if (onChunks === undefined) throw new Error("The worker sent chunks that were not requested");
    const chunks = toRawChunks(parts);
    const { outputBytes, jsonValues } = this.limits;
    this.#chunksOut = bound(this.#chunksOut + chunks.length, STREAM_WINDOW.chunks);
    this.#chunks = bound(this.#chunks + chunks.length, jsonValues);
    for (const { size } of chunks) this.#chunkBytes = bound(this.#chunkBytes + size, outputBytes);
    onChunks(chunks);
  }

  /** Calls back if the call is not released in time. */
  expectRelease(withinMs: number, onStuck: () => void): void {
    this.#releaseTimer ??= new RunningTimer(withinMs, onStuck);
  }

  release(): void {
    this.#releaseTimer?.[Symbol.dispose]();
    this.#releaseTimer = undefined;
  }

  /**
   * Processes one message.
   * @throws {Error} for a message that a correct worker never sends, or that is out of order
   */
  receive(message: CallMessage, parts: readonly Buffer[], deliver: Deliver): void {
    if ((message.type === "released") !== this.hasEnded) throw new Error("The worker's messages are out of order");
    const { listener, limits } = this;
    // Every message but `preparing` may be caused by the tool's code, which has then begun.
    if (message.type !== "preparing") this.#mayHaveRun = true;
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
      case "span":
        this.#spanReports = bound(this.#spanReports + 1, SPAN_REPORTS);
        listener.onSpan?.(message.time, text(parts, SPAN_BYTES));
        break;
      case "capability":
        this.#requests = bound(this.#requests + 1, this.#maxRequests);
        this.#receiveRequest(message, text(parts, limits.inputBytes * 4), deliver);
        break;
      case "turns":
        if (listener.onTurns === undefined) throw new Error("The worker sent turns that were not requested");
        this.#turnsLength = bound(this.#turnsLength + (parts[0]?.length ?? 0), MAX_TURNS_LENGTH * 2);
        listener.onTurns(text(parts, MAX_TURNS_LENGTH), message);
        break;
      case "idle":
        this.#idleReports = bound(this.#idleReports + 1, UNCOUNTED_REQUESTS);
        listener.onIdle?.(message.isIdle);
        break;
      case "chunks":
        this.#receiveChunks(parts);
        break;
      case "parked":
        this.#entries -= bound(message.entries, this.#entries);
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

  #receiveRequest({ name, requestId }: CapabilityMessage, input: string, deliver: Deliver): void {
    let isNested = name === "tools";
    if (isNested) this.nested += 1;
    const send: CapabilityRequest["send"] = (envelope, latencyMs) => {
      if (isNested) this.nested -= 1;
      isNested = false;
      deliver(requestId, envelope, latencyMs);
    };
    this.listener.onCapability(name, input, { requestId, send });
  }

  #advance(from: readonly CallState[], to: CallState): void {
    if (!from.includes(this.#state)) throw new Error("The worker's messages are out of order");
    this.#state = to;
  }
}

/** @throws {Error} if the count exceeds its maximum */
function bound(count: number, max: number): number {
  if (count > max) throw new Error("The worker exceeded a limit of its call");
  return count;
}

export function text(parts: readonly Buffer[], maxBytes: number): string {
  const [part] = parts;
  if (part === undefined || part.length > maxBytes)
    throw new Error("A part of a worker message is missing or too long");
  return part.toString();
}
