// Jobs of the worker pool: what a caller requests, and what the pool knows of it.

import type { ToolError } from "../../sandbox/contract/errors.ts";
import type { WorkerToolProfile } from "../../sandbox/protocol/host-messages.ts";
import type { LogLevel } from "../../sandbox/protocol/message-fields.ts";
import type { EndedMessage } from "../../sandbox/protocol/worker-messages.ts";
import type { ListSlot } from "../util/linked-list.ts";
import type { EndReason } from "./health/process-ending.ts";
import type { CallListener, CallLossReason, CapabilityRequest } from "./process/call-events.ts";
import type { WorkerProcess } from "./process/worker-process.ts";
import type { Claim, Entry } from "./scheduling/fair-queue.ts";
import type { Pace } from "./scheduling/tool-pace.ts";
import type { ProcessNeed } from "./scheduling/warm-pool.ts";
import type { RemotePython } from "./spawn/python-setup.ts";
import type { WorkerJob } from "./worker-job.ts";

/** A call for the pool to run. */
export interface Job extends WorkerJob, ProcessNeed {
  /** No process ever serves two owners. All processes of one owner are of the kind that its jobs need. */
  readonly owner: string;
  readonly claim: Claim;
  readonly listener: CallListener;
  readonly memoryMiB: number;
  /** Longest time in ms that the job may wait in the queue. */
  readonly queueMs?: number;
  /** Needs an unused process, and shares it with no other call while it runs. */
  readonly fresh?: boolean;
  /** The process is ended after the job. */
  readonly singleUse?: boolean;
  /** The job runs alone in its process. */
  readonly exclusive?: boolean;
  /** The job may run again after it has begun. */
  readonly idempotent?: boolean;
  /** Pools of executors that may run it. Concerns fleets only. */
  readonly pools?: readonly string[] | undefined;
  /** What an executor needs, if it is a Python call. Concerns fleets only. */
  readonly python?: RemotePython | undefined;
  /** The session whose isolate it runs in; `order.session` has the session's id. */
  readonly session?: SessionPlacement | undefined;
}

/**
 * Why the isolate of a session is lost: its process has ended; its executor is lost, stops, or is in a pool that the tenant
 * may not use any longer. Undefined: its process has ended by itself.
 */
export type SessionLoss = EndReason | "executor-lost" | "executor-stops" | "pool-denied" | undefined;

/** Location of a session's isolate. The session's calls run there and nowhere else, one at a time. */
export interface SessionPlacement {
  readonly id: number;
  /** Set when the first call of the session is placed. Not set for an isolate on an executor. */
  worker: WorkerProcess | undefined;
  /** The isolate is lost. Returns the error of calls of the session that have not begun. */
  onLost(reason: SessionLoss): ToolError | undefined;
}

/** A use of a tool: in one process, by one tenant. */
export interface WarmUse {
  readonly worker: WorkerProcess;
  readonly profile: WorkerToolProfile;
  readonly tenantId: string;
  /** Warm isolates that the tenant's calls need there. */
  readonly isolates: number;
}

/** Handle of a job. */
export interface Ticket {
  /** Ends the call in the queue or in its process. Its listener receives how it ended. */
  cancel(): void;
  /** Allows `chunks` more chunks, because the reader has taken as many. */
  credit(chunks: number): void;
  /**
   * Marks the call as waiting for a person or a model, or ends that mark. Each `true` needs one `false`. Other calls
   * may use the slot meanwhile.
   */
  setPaused(isPaused: boolean): void;
  /** Turns `onIdle` events of the listener on or off. */
  watchIdle(isWatched: boolean): void;
}

/** What the pool does when something happens to a job. */
export interface JobPool {
  onEnded(placed: PlacedJob, message: EndedMessage, parts: readonly Buffer[], peakBytes: number): void;
  onLost(placed: PlacedJob, loss: CallLossReason, peakBytes: number): void;
  onStuck(placed: PlacedJob): void;
  cancel(placed: PlacedJob): void;
  /** Called when a running job has paused, so that others may run meanwhile. */
  onPause(): void;
}

/** A job in the pool. It receives the events of its call, and is its caller's handle. */
export class PlacedJob implements CallListener, Ticket {
  readonly job: Job;
  /** What was known of the tool when the job was queued. */
  readonly pace: Pace;
  /** Jobs with the same key can use the same processes. */
  readonly placementKey: string;
  readonly #pool: JobPool;
  readonly queuedAt: number = performance.now();
  attempts = 0;
  entry: Entry<PlacedJob> | undefined;
  worker: WorkerProcess | undefined;
  /** Its place among the jobs of the process. */
  slot: ListSlot<PlacedJob> | undefined;
  seq = 0;
  placedAt = 0;
  /** When its tool began to run, by performance.now(); undefined until the process has reported that. */
  startedAt: number | undefined;
  queueTimer: NodeJS.Timeout | undefined;
  state: "queued" | "placed" | "over" = "queued";
  /** Its caller has left, or its deadline has passed. */
  isCancelled = false;

  constructor(job: Job, pace: Pace, owner: JobPool) {
    this.job = job;
    this.pace = pace;
    this.placementKey = placementKeyOf(job, pace);
    this.#pool = owner;
  }

  cancel(): void {
    this.#pool.cancel(this);
  }

  credit(chunks: number): void {
    if (this.state === "placed") this.worker?.credit(this.seq, chunks);
  }

  watchIdle(isWatched: boolean): void {
    if (this.state === "placed") this.worker?.watchGuest(this.seq, isWatched);
  }

  setPaused(isPaused: boolean): void {
    if (this.state !== "placed") return;
    this.worker?.setPaused(this.seq, isPaused);
    if (isPaused) this.#pool.onPause();
  }

  get onChunks(): CallListener["onChunks"] {
    return this.job.listener.onChunks;
  }

  get onTurns(): CallListener["onTurns"] {
    return this.job.listener.onTurns;
  }

  onPlaced(): void {
    this.job.listener.onPlaced();
  }

  onStarted(): void {
    this.startedAt = performance.now();
    this.job.listener.onStarted?.();
  }

  onPaused(isPaused: boolean): void {
    this.job.listener.onPaused(isPaused);
  }

  onIdle(isIdle: boolean): void {
    this.job.listener.onIdle?.(isIdle);
  }

  onLog(level: LogLevel, time: number, text: string, place?: string): void {
    this.job.listener.onLog(level, time, text, place);
  }

  onProgress(text: string): void {
    this.job.listener.onProgress(text);
  }

  onSpan(time: number, text: string): void {
    this.job.listener.onSpan?.(time, text);
  }

  onCapability(name: string, text: string, request: CapabilityRequest): void {
    this.job.listener.onCapability(name, text, request);
  }

  onEnded(message: EndedMessage, parts: readonly Buffer[], peakBytes: number): void {
    this.#pool.onEnded(this, message, parts, peakBytes);
  }

  onLost(loss: CallLossReason, peakBytes: number): void {
    this.#pool.onLost(this, loss, peakBytes);
  }

  onStuck(): void {
    this.#pool.onStuck(this);
  }
}

/** Whether a call may wait in its process for calls of other tools. */
export const mayNest = ({ order }: Pick<Job, "order">): boolean =>
  order.type === "call" && order.tool.granted.includes("tools");

/** Key of everything in a job that decides which process it may use. */
function placementKeyOf(
  {
    owner,
    claim,
    memoryMiB,
    session,
    order,
    kind = "plain",
    dataBytes = 0,
    fresh = false,
    singleUse = false,
    exclusive = false,
  }: Job,
  pace: Pace,
): string {
  // Whether a call that is long, or runs alone, may run depends on the other calls of its tool.
  const paceKey = pace === "long" || exclusive ? `${pace} ${claim.toolKey}` : pace;
  // A call that ends by itself may run where one that may wait for others must not.
  const nestingKey = `${claim.parentSlot !== undefined} ${mayNest({ order })}`;
  return `${session?.id ?? ""} ${nestingKey} ${fresh} ${singleUse} ${exclusive} ${memoryMiB} ${kind} ${dataBytes} ${paceKey} ${owner}`;
}
