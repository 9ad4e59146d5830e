// One attempt to run a call on an executor. The executor is not trusted: what it sends is parsed, counted and checked
// like the messages of a worker process, and only while the attempt's fencing token is valid.
import { randomBytes } from "node:crypto";
import { monotonicMs } from "../../../sandbox/contract/monotonic-time.ts";
import { checkWorkerMessage } from "../../../sandbox/protocol/read-worker-message.ts";
import { RunningTimer } from "../../util/running-timer.ts";
import { largestFrame } from "../../workers/frame-size.ts";
import { type CallLossReason, LossEvent } from "../../workers/process/call-events.ts";
import { type CallMessage, WorkerCall } from "../../workers/process/worker-call.ts";
import { ObjectOffers } from "../objects/object-offers.ts";
import type { CountedMessage, ExecutorCallMessage, RejectionReason } from "../protocol/executor-messages.ts";
import { MAX_FLEET_JSON_BYTES } from "../protocol/wire.ts";
import type { CallAttempt, FleetCall } from "./fleet-call.ts";
import type { RemoteExecutor } from "./remote-executor.ts";

/** Messages of a worker that an executor passes on. The others are between an executor and its worker. */
const PASSED_ON: ReadonlySet<string> = new Set<CallMessage["type"]>([
  "started",
  "log",
  "progress",
  "span",
  "capability",
  "turns",
  "idle",
  "chunks",
  "ended",
]);

/**
 * The loss of executors: one event for all of them, because an outage of NATS takes all at once. It says little about a tool, so a circuit
 * counts it once for calls that ran at the same time.
 */
const EXECUTOR_LOST = new LossEvent("An executor was lost before its calls ended", true);

/** Longest time in ms in which an executor must end a cancelled call. It kills a process that does not stop within a second. */
const CANCEL_MS = 5_000;
/** CPU time in ms that a call may use beyond its limit until it is stopped. */
const CPU_SLACK_MS = 1_000;
/** Threads that can compute for one call at the same time: V8 compiles and collects garbage on several. */
const MAX_THREADS = 16;

/** What the pool does when an attempt is over. */
export interface AttemptOwner {
  onRejected(attempt: RemoteAttempt, reason: RejectionReason): void;
  /** @param isKept whether the call has left the isolate of its session */
  onEnded(attempt: RemoteAttempt, cpuMs: number, isKept: boolean): void;
  onLost(attempt: RemoteAttempt, loss: CallLossReason, peakBytes: number): void;
}

interface AttemptOptions {
  readonly call: FleetCall;
  readonly executor: RemoteExecutor<RemoteAttempt>;
  readonly isNested: boolean;
}

export class RemoteAttempt implements CallAttempt {
  /** 128 random bits: only the executor that received the call knows them. */
  readonly token: string = randomBytes(16).toString("base64url");
  readonly call: FleetCall;
  readonly executor: RemoteExecutor<RemoteAttempt>;
  /** Whether the caller of this nested call lends its slot. */
  readonly isNested: boolean;
  readonly #owner: AttemptOwner;
  readonly #open: WorkerCall;
  /** What the executor may read. */
  readonly offers = new ObjectOffers();
  /** When the call was published, or the executor has last read a part of it, by performance.now(). */
  #sentAt: number | undefined;
  /** Number of the last message. */
  #received = 0;
  /** Whether a message of the executor is being read in parts. */
  isReadingObject = false;
  #isGivenUp = false;
  #cancelTimer: RunningTimer | undefined;
  /** Number of the last message to the executor. */
  sentMessages = 0;
  isOver = false;

  constructor({ call, executor, isNested }: AttemptOptions, owner: AttemptOwner) {
    this.call = call;
    this.executor = executor;
    this.isNested = isNested;
    this.#owner = owner;
    const { order, listener } = call.job;
    const descriptors = order.type === "call" ? order.tool.descriptors : undefined;
    this.#open = new WorkerCall({
      seq: 1,
      listener,
      limits: call.limits,
      warmKey: undefined,
      rssBytes: 0,
      cpuMs: 0,
      hasUncounted: Object.values(descriptors ?? {}).some(({ uncounted }) => uncounted !== undefined),
    });
  }

  /** Whether the executor has acknowledged the call. */
  get isAcknowledged(): boolean {
    return this.#received > 0;
  }

  /** Called when the call has been published. */
  sent(): void {
    this.#sentAt = performance.now();
  }

  /** Called when the executor reads a part of the call: it is alive, although it may not have acknowledged the call yet. */
  read(): void {
    if (!this.isAcknowledged) this.sent();
  }

  /** Whether the call was published before this time, by performance.now(), and is not acknowledged. */
  isUnacknowledged(before: number): boolean {
    return this.#sentAt !== undefined && this.#sentAt < before && !this.isAcknowledged;
  }

  /** Maximum size of one message about the call in bytes. */
  get maxBytes(): number {
    return largestFrame(this.call.limits, 0) + MAX_FLEET_JSON_BYTES;
  }

  /**
   * Whether the executor has reported that the call has started, or anything that code of the tool may have caused. If not, no effect has left
   * the sandbox, because every effect passes through this attempt, but the executor may have run code that only computes.
   */
  get hasBegun(): boolean {
    return this.#open.hasBegun(true);
  }

  /** Number of the last message. */
  get received(): number {
    return this.#received;
  }

  /** Counts a message. Returns false if an earlier one is missing; the attempt has then ended as lost. */
  count(n: number): boolean {
    if (n !== this.#received + 1) {
      this.lose();
      return false;
    }
    this.#received = n;
    return true;
  }

  /**
   * Whether an executor may send this message while its object is read. It sends nothing more until its object was taken,
   * except once that it has given up the call.
   */
  giveUpObject({ type }: CountedMessage): boolean {
    if (type !== "lost" || this.#isGivenUp) return false;
    this.#isGivenUp = true;
    return true;
  }

  /** What its executor sends from now on is ignored. */
  end(): void {
    this.isOver = true;
    this.#cancelTimer?.[Symbol.dispose]();
  }

  /** Ends the attempt: its token is no longer valid. Unless the executor reports an event, the executor itself is lost. */
  lose(loss: Omit<CallLossReason, "begun"> & { readonly begun?: boolean } = {}, peakBytes = 0): void {
    if (this.isOver) return;
    this.#owner.onLost(this, { event: EXECUTOR_LOST, ...loss, begun: loss.begun === true || this.hasBegun }, peakBytes);
  }

  /**
   * Processes one message.
   * @throws {Error} for a message that a correct executor never sends
   */
  receive(message: ExecutorCallMessage, parts: readonly Buffer[]): void {
    if (this.isOver) return;
    switch (message.type) {
      case "accepted":
        break;
      case "placed":
        this.#place(message.placedMs ?? 0);
        break;
      case "rejected":
        if (this.#received !== 1) throw new Error("The executor rejected a call that it had accepted");
        this.#owner.onRejected(this, message.reason);
        break;
      case "lost": {
        const { begun, outOfMemory, isNotStarted, peakBytes } = message;
        // One that drains ends its processes when its time is over.
        const event = this.executor.announcement.isDraining ? EXECUTOR_LOST : this.executor.processEvent;
        this.lose({ begun, outOfMemory, event, ...(isNotStarted ? { isNotStarted } : {}) }, peakBytes);
        break;
      }
      case "event":
        this.#receiveEvent(message, parts);
        break;
    }
  }

  /** @param ageMs how long ago, as the executor says: at most since the call was sent to it */
  #place(ageMs: number): void {
    const sinceSent = performance.now() - (this.#sentAt ?? performance.now());
    this.call.job.listener.onPlaced(Math.min(ageMs, sinceSent));
  }

  #receiveEvent(
    { message, placedMs, isStarted, peakBytes = 0 }: ExecutorCallMessage & { type: "event" },
    parts: readonly Buffer[],
  ): void {
    const parsed = checkWorkerMessage(message);
    if (!PASSED_ON.has(parsed.type)) throw new Error("The executor passed on a message that does not concern a call");
    // The time of a span is its age, because machines share no monotonic clock.
    const event = (
      parsed.type === "span" ? { ...parsed, time: monotonicMs() + Math.min(0, parsed.time) } : parsed
    ) as CallMessage;
    // The tools of all tenants share the Python runtime, so an executor has no say in what its isolates load.
    if (event.type === "ended" && this.call.needs.python !== undefined) delete event.usedModules;
    if (event.type === "ended") event.usage.cpuMs = this.#plausibleCpuMs(event.usage.cpuMs);
    if (placedMs !== undefined) this.#place(placedMs);
    if (isStarted === true) this.#open.receive({ type: "started", seq: 1 }, [], () => {});
    this.#open.meter(peakBytes);
    // An executor ends the calls of a control plane of which it has heard nothing for a while, such as in an outage of NATS.
    if (event.type === "ended" && event.outcome === "cancelled" && !this.call.isCancelled) {
      this.lose({ begun: event.phase === "execute" }, peakBytes);
      return;
    }
    // If this throws, for example because of invalid attachments, the call has not ended: it is lost.
    this.#open.receive(event, parts, (requestId, envelope, latencyMs) => {
      if (this.isOver) return;
      const { token } = this;
      const latency = latencyMs === undefined ? {} : { latencyMs };
      this.executor.send({ type: "answer", token, requestId, ...latency }, [envelope]);
    });
    if (event.type === "ended" && !this.isOver) this.#owner.onEnded(this, event.usage.cpuMs, event.kept === true);
  }

  /** Bounds the CPU time that the executor reports: it counts towards a quota, and towards the turn of the tenant on all executors. */
  #plausibleCpuMs(reportedMs: number): number {
    const sinceSent = performance.now() - (this.#sentAt ?? performance.now());
    return Math.min(reportedMs, this.call.limits.cpuMs + CPU_SLACK_MS, sinceSent * MAX_THREADS);
  }

  /** An executor that does not end the call in time loses it: the call would keep its slot. */
  cancel(): void {
    if (this.isOver) return;
    this.executor.send({ type: "cancel", token: this.token });
    this.#cancelTimer ??= new RunningTimer(CANCEL_MS, () => this.lose());
  }

  credit(chunks: number): void {
    this.#open.credit(chunks);
    if (!this.isOver) this.executor.send({ type: "credit", token: this.token, chunks });
  }

  setPaused(isPaused: boolean): void {
    if (!this.isOver) this.executor.send({ type: "rest", token: this.token, isResting: isPaused });
  }

  watchIdle(isWatched: boolean): void {
    if (!this.isOver) this.executor.send({ type: "watch-idle", token: this.token, isWatched });
  }
}
