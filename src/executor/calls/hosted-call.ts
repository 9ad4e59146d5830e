// One call on an executor: runs it in the worker pool, and sends its events to the control plane that it came from.

import { ObjectOffers } from "../../host/fleet/objects/object-offers.ts";
import type { RunMessage } from "../../host/fleet/protocol/control-messages.ts";
import {
  type ExecutorCallMessage,
  MAX_AGE_MS,
  type RejectionReason,
} from "../../host/fleet/protocol/executor-messages.ts";
import type { Ticket } from "../../host/workers/pool-job.ts";
import type { CallListener, CallLossReason, CapabilityRequest } from "../../host/workers/process/call-events.ts";
import { monotonicMs } from "../../sandbox/contract/monotonic-time.ts";
import type { LogLevel } from "../../sandbox/protocol/message-fields.ts";
import type { EndedMessage, WorkerMessage } from "../../sandbox/protocol/worker-messages.ts";
import type { HostedSession } from "./hosted-sessions.ts";

type Unnumbered<Message> = Message extends unknown ? Omit<Message, "token" | "n"> : never;
/** A message about the call, without its token and number. */
export type CallReport = Unnumbered<ExecutorCallMessage>;

/** The last report about a call that cannot be reported any longer: it may have begun. */
export const BROKEN_REPORT: CallReport = {
  type: "lost",
  begun: true,
  outOfMemory: false,
  isNotStarted: false,
  peakBytes: 0,
};

export interface HostedCallOptions {
  readonly run: RunMessage;
  /** The session in whose isolate it runs. */
  readonly session?: HostedSession | undefined;
  readonly send: (call: HostedCall, message: CallReport, parts: readonly (string | Uint8Array)[]) => void;
  /** Called when a report of the call's state is due. */
  readonly onWaiting: (call: HostedCall) => void;
  /** Called once, when the call has ended here. */
  readonly onEnd: (call: HostedCall) => void;
}

/** The worker's number of a call has no meaning for the control plane. */
const SEQ = 1;

/** Loss of a call of which nothing has run. */
const NOTHING_LOST = { begun: false, outOfMemory: false, isNotStarted: false, peakBytes: 0 } as const;
/** Usage of a call of which nothing has run. */
const NOTHING_USED = { cpuMs: 0, heapBytes: 0, startMs: 0, executeMs: 0, logsDropped: 0 } as const;

export class HostedCall implements CallListener {
  readonly token: string;
  readonly control: string;
  readonly isNested: boolean;
  readonly session: HostedSession | undefined;
  /** Whether the isolate of its session is kept: until something of the call runs, it is as earlier calls have left it. */
  keepsIsolate: boolean;
  /** Messages that the control plane may read, because they are too large to be sent. */
  readonly offers = new ObjectOffers();
  readonly onChunks: CallListener["onChunks"];
  readonly onTurns: CallListener["onTurns"];
  readonly #options: HostedCallOptions;
  readonly #answers = new Map<number, CapabilityRequest["send"]>();
  #ticket: Ticket | undefined;
  /** Whether a message is due that reports the state of the call, if no other message is sent first. */
  #isUnannounced = false;
  /** Time of its placement, by performance.now(), and whether it has started. Reset when a message has reported it. */
  #placedAt: number | undefined;
  #isStarted = false;
  /** Each is reported once, although a call whose process was lost before it had begun is placed again. */
  #wasPlaced = false;
  #hasStarted = false;
  #isAccepted = false;
  /** Whether it was given to the pool. */
  #isStarting = false;
  #isCancelled = false;
  #hasEnded = false;
  /** Number of its last message. */
  sent = 0;
  /** Number of the last message about it from the control plane. */
  received = 0;
  /** A message of it could not be sent, so that no later one is. */
  isBroken = false;

  constructor(options: HostedCallOptions, isRecorded: boolean) {
    const { token, control, isNested, stream, deterministic } = options.run;
    // A durable run keeps the order of events in its journal, also without a recording.
    const reportsTurns = isRecorded || deterministic?.mode === "record" || deterministic?.mode === "resume";
    this.#options = options;
    this.token = token;
    this.control = control;
    this.isNested = isNested;
    this.session = options.session;
    this.keepsIsolate = options.session?.isKept === true;
    if (stream === true) {
      this.onChunks = (chunks) => {
        // Chunks with bytes have messages of their own, as from a worker.
        for (const group of toGroups(chunks)) this.#event({ type: "chunks", seq: SEQ }, group);
      };
    }
    if (reportsTurns) this.onTurns = (text, message) => this.#event({ ...message, seq: SEQ }, [text]);
  }

  /** The executor runs the call, although it cannot start it yet. */
  accept(): void {
    this.#isAccepted = true;
    this.#wait();
  }

  /** Starts the call, unless it was cancelled before. */
  start(run: () => Ticket): void {
    if (this.#hasEnded) return;
    this.#isStarting = true;
    this.#wait();
    try {
      this.#ticket = run();
    } catch {
      this.#lost({ begun: false, isNotStarted: true }, 0);
    }
    if (this.#isCancelled) this.#ticket?.cancel();
  }

  /** Reports that the executor does not run the call. No code of it has run. */
  reject(reason: RejectionReason): void {
    if (this.#hasEnded) return;
    if (this.#isAccepted) {
      this.#lost({ begun: false, isNotStarted: true }, 0);
      return;
    }
    this.#send({ type: "rejected", reason });
    this.#end();
  }

  cancel(): void {
    if (this.#isCancelled) return;
    this.#isCancelled = true;
    if (this.#isStarting) this.#ticket?.cancel();
    else this.#endUnbegun();
  }

  credit(chunks: number): void {
    this.#ticket?.credit(chunks);
  }

  setPaused(isPaused: boolean): void {
    this.#ticket?.setPaused(isPaused);
  }

  watchIdle(isWatched: boolean): void {
    this.#ticket?.watchIdle(isWatched);
  }

  answer(requestId: number, envelope: string, latencyMs: number | undefined): void {
    const send = this.#answers.get(requestId);
    this.#answers.delete(requestId);
    send?.(envelope, latencyMs);
  }

  #send(message: CallReport, parts: readonly (string | Uint8Array)[] = []): void {
    if (this.#hasEnded) return;
    this.#isUnannounced = false;
    this.#options.send(this, message, parts);
  }

  #event(message: WorkerMessage, parts: readonly (string | Uint8Array)[], peakBytes?: number): void {
    const isStarted = this.#isStarted ? { isStarted: true as const } : {};
    this.#isStarted = false;
    const peak = peakBytes === undefined ? {} : { peakBytes };
    this.#send({ type: "event", message, ...this.#takePlaced(), ...isStarted, ...peak }, parts);
  }

  /** Returns how long the call has been in its process, if no message has reported it. */
  #takePlaced(): { readonly placedMs?: number } {
    const placedAt = this.#placedAt;
    if (placedAt === undefined) return {};
    this.#placedAt = undefined;
    return { placedMs: Math.min(MAX_AGE_MS, performance.now() - placedAt) };
  }

  /** Reports the state of the call, if no other message has. Most calls end before, and need one message. */
  announce(): void {
    if (!this.#isUnannounced) return;
    if (this.#isStarted) {
      this.#isStarted = false;
      this.#event({ type: "started", seq: SEQ }, []);
    } else if (this.#placedAt === undefined) this.#send({ type: "accepted" });
    else this.#send({ type: "placed", ...this.#takePlaced() });
  }

  #end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#answers.clear();
    this.#options.onEnd(this);
  }

  /** Ends a cancelled call of which nothing has run. It leaves the isolate of its session as it was. */
  #endUnbegun(): void {
    if (this.keepsIsolate) {
      const outcome = { outcome: "cancelled", phase: "load", usage: NOTHING_USED } as const;
      this.#event({ type: "ended", seq: SEQ, ...outcome, released: true, kept: true }, []);
    } else this.#send({ type: "lost", ...NOTHING_LOST });
    this.#end();
  }

  #lost({ begun, outOfMemory = false, isNotStarted = false }: CallLossReason, peakBytes: number): void {
    if (!begun && this.#isCancelled) {
      this.#endUnbegun();
      return;
    }
    if (begun) this.keepsIsolate = false;
    this.announce();
    this.#send({ type: "lost", begun, outOfMemory, isNotStarted, peakBytes: Math.max(0, Math.round(peakBytes)) });
    this.#end();
  }

  onPlaced(): void {
    if (this.#wasPlaced) return;
    this.#wasPlaced = true;
    this.#placedAt = performance.now();
    this.#wait();
  }

  onStarted(): void {
    if (this.#hasStarted) return;
    this.#hasStarted = true;
    this.#isStarted = true;
    this.#wait();
  }

  #wait(): void {
    this.#isUnannounced = true;
    this.#options.onWaiting(this);
  }

  onLog(level: LogLevel, time: number, text: string, place?: string): void {
    this.#event({ type: "log", seq: SEQ, level, time, ...(place === undefined ? {} : { place }) }, [text]);
  }

  onProgress(text: string): void {
    this.#event({ type: "progress", seq: SEQ }, [text]);
  }

  onSpan(time: number, text: string): void {
    // Machines share no monotonic clock, so the time is sent as an age.
    this.#event({ type: "span", seq: SEQ, time: time - monotonicMs() }, [text]);
  }

  onCapability(name: string, text: string, { requestId, send }: CapabilityRequest): void {
    this.#answers.set(requestId, send);
    this.#event({ type: "capability", seq: SEQ, requestId, name }, [text]);
  }

  onIdle(isIdle: boolean): void {
    this.#event({ type: "idle", seq: SEQ, isIdle }, []);
  }

  onEnded(message: EndedMessage, parts: readonly Buffer[], peakBytes: number): void {
    this.keepsIsolate = message.kept === true;
    this.#event({ ...message, seq: SEQ, released: true }, parts, Math.max(0, Math.round(peakBytes)));
    this.#end();
  }

  onLost(loss: CallLossReason, peakBytes: number): void {
    this.#lost(loss, peakBytes);
  }

  onPaused(): void {}

  onStuck(): void {}
}

type Chunks = Parameters<NonNullable<CallListener["onChunks"]>>[0];

const NEWLINE = Buffer.from("\n");

/** Groups chunks into messages, as a worker does: texts of several one a line, and each chunk with bytes for itself. */
function toGroups(chunks: Chunks): readonly (readonly (string | Uint8Array)[])[] {
  const groups: (readonly (string | Uint8Array)[])[] = [];
  let lines: Uint8Array[] = [];
  const flush = (): void => {
    if (lines.length > 0) groups.push([Buffer.concat(lines.slice(1))]);
    lines = [];
  };
  for (const { text, attachments } of chunks) {
    if (attachments === undefined) lines.push(NEWLINE, typeof text === "string" ? Buffer.from(text) : text);
    else {
      flush();
      groups.push([text, ...attachments]);
    }
  }
  flush();
  return groups;
}
