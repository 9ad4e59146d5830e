// What a call in a worker process reports: its events, requests of its capabilities, and why it was lost.
import type { ToolError } from "../../../sandbox/contract/errors.ts";
import type { LogLevel } from "../../../sandbox/protocol/message-fields.ts";
import type { EndedMessage, WorkerMessage } from "../../../sandbox/protocol/worker-messages.ts";
import type { RawChunk } from "../../contract/tool-stream.ts";

/** Why a call ended without a result of its own. */
export interface CallLossReason {
  /** Code of the tool may have run for this call. */
  readonly begun: boolean;
  /** The process exceeded its memory, or ended for lack of memory, while this was the only call in it. */
  readonly outOfMemory?: boolean;
  /** The tool may have caused the end of the process. */
  readonly isSuspect?: boolean;
  /** Why the call was given up before it began. */
  readonly cause?: ToolError;
  /** No process could be started. */
  readonly isNotStarted?: boolean;
  /** The event that ended the call: the same object for all calls that it ended, so that a circuit counts it once. */
  readonly event?: LossEvent;
}

/** An end of a process or a loss of executors, which can end many calls at once. */
export class LossEvent extends Error {
  /** Whether executors were lost, with calls in all their processes, and not one process of this machine or of an executor. */
  readonly isExecutorLost: boolean;

  constructor(message: string, isExecutorLost = false) {
    super(message);
    this.isExecutorLost = isExecutorLost;
  }
}

/** A capability call of the guest that waits for its answer. */
export interface CapabilityRequest {
  /** Position of the request in the call. */
  readonly requestId: number;
  /**
   * Sends the envelope to this attempt of the call. It is a no-op once the attempt has ended.
   * @param latencyMs how long the capability took in the recording, for a call that is rehearsed
   */
  readonly send: (envelope: string, latencyMs?: number) => void;
}

type TurnsMessage = Extract<WorkerMessage, { type: "turns" }>;

/** Receives the events of one call. After `onEnded` or `onLost`, only `onStuck` may follow. */
export interface CallListener {
  /** `place` is the source location `script:line:column` in the isolate, if the caller requested it. */
  onLog(level: LogLevel, time: number, text: string, place?: string): void;
  onProgress(text: string): void;
  /** A report of `ctx.span`. @param time by the system's monotonic clock in ms, as the worker process says */
  onSpan?(time: number, text: string): void;
  onCapability(name: string, text: string, request: CapabilityRequest): void;
  /** Receives turns of a recorded call, in order; undefined if the caller does not record it. */
  readonly onTurns?: ((text: string, message: TurnsMessage) => void) | undefined;
  /** Receives what the tool yields; undefined if the caller did not request a stream. */
  readonly onChunks?: ((chunks: readonly RawChunk[]) => void) | undefined;
  /**
   * The process is up and has the call. The time until then does not count as the tool's.
   * @param ageMs how long ago, in ms. Default: 0
   */
  onPlaced(ageMs?: number): void;
  /** The isolate is ready, or has run for a while. From now on time counts as the tool's. */
  onStarted?(): void;
  /** @param peakBytes largest growth of the process while the call ran; 0 where it cannot be measured */
  onEnded(message: EndedMessage, parts: readonly Buffer[], peakBytes: number): void;
  onLost(loss: CallLossReason, peakBytes: number): void;
  /** The call is queued again: its process was lost, and it has not begun or is idempotent. `onPlaced` follows. */
  onPutBack?(): void;
  /** A person who inspects the call has paused or resumed it. Time does not count while it is paused. */
  onPaused(isPaused: boolean): void;
  /** Whether the guest of an observed call only waits for the host. Reported by the worker process, so not trusted. */
  onIdle?(isIdle: boolean): void;
  /** The call has ended but did not stop, so its process is killed. */
  onStuck(): void;
}
