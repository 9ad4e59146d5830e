// Sends what a running call reports to the host: logs, progress, capability calls and chunks, within the call's limits.
import type { Limits } from "../contract/limits.ts";
import { monotonicMs } from "../contract/monotonic-time.ts";
import { LOG_LEVELS, type LogLevel, SOURCE_LOCATION_PATTERN } from "../protocol/message-fields.ts";
import type { Send, WorkerMessage } from "../protocol/worker-messages.ts";
import type { Assignment } from "./assignment.ts";
import type { GuestBytes } from "./isolate/guest-call.ts";
import type { ToolIsolate } from "./isolate/tool-isolate.ts";
import { OutputBuffer } from "./output-buffer.ts";

const isLogLevel = (level: string): level is LogLevel => LOG_LEVELS.includes(level as LogLevel);
/** Time in ms on the main thread, or since the last such write, after which messages are sent before the guest leaves it. */
const FLUSH_AFTER_MS = 1;
/** Maximum number of reports of spans of one call: two for each of 1,000 spans. Longest report: a name and 16 attributes, each character escaped. */
const MAX_SPAN_REPORTS = 2_000;
const MAX_SPAN_REPORT = 32_768;

export class CallOutput {
  readonly #assignment: Assignment;
  readonly #sendNow: Send;
  readonly #flush: () => void;
  /** Set for a streaming call. */
  readonly #chunks: OutputBuffer | undefined;
  #logBytes = 0;
  #logLines = 0;
  #spanReports = 0;
  #flushedAt = 0;
  /** Whether the host knows the seed of a recorded call. */
  #hasSentStart = false;
  /** The isolate of the call, once it has one. */
  isolate: Pick<ToolIsolate, "takeTurnReport" | "recordedStart"> | undefined;
  /** Log lines that exceeded the limits. */
  logsDropped = 0;
  /** Whether the tool logged or requested something while it was prewarmed. Only a call may have such effects. */
  hasSideEffects = false;
  /** When the guest entered the main thread, by performance.now(); undefined while it is not there. */
  enteredAt: number | undefined;

  /** @param flush sends the messages that wait for the end of this turn of the event loop */
  constructor(assignment: Assignment, send: Send, flush: () => void) {
    this.#assignment = assignment;
    this.#sendNow = send;
    this.#flush = flush;
    const { seq, limits, call } = assignment;
    if (call?.stream !== true) return;
    this.#chunks = new OutputBuffer(limits, (parts) => send({ type: "chunks", seq }, parts));
  }

  get #limits(): Limits {
    return this.#assignment.limits;
  }

  /** Total size of the chunks in bytes. */
  get chunkBytes(): number {
    return this.#chunks?.bytes ?? 0;
  }

  send(message: WorkerMessage, parts?: readonly (string | Uint8Array)[]): void {
    this.#chunks?.flush();
    this.#sendNow(message, parts);
    if (this.enteredAt !== undefined) this.#flushIfDue(message.type, this.enteredAt);
  }

  /**
   * Sends messages of a guest on the main thread before it leaves: after some time there, and reports for people, which may precede a long
   * computation. A capability call usually precedes an `await`, so it leaves together with `parked`.
   */
  #flushIfDue(type: WorkerMessage["type"], enteredAt: number): void {
    const now = performance.now();
    const since = type === "log" || type === "progress" ? this.#flushedAt : Math.max(this.#flushedAt, enteredAt);
    if (now - since < FLUSH_AFTER_MS) return;
    this.#flushedAt = now;
    this.#flush();
  }

  /** Returns whether the tool is only prewarmed, and if so records that it had a side effect, which must not be sent to the host. */
  #suppressSideEffect(): boolean {
    if (this.#assignment.call?.prewarm === undefined) return false;
    this.hasSideEffects = true;
    return true;
  }

  log(level: string, text: string, place?: string): void {
    if (this.#suppressSideEffect()) return;
    const { logBytes, logLines } = this.#limits;
    this.#logLines += 1;
    this.#logBytes += text.length;
    if (!isLogLevel(level) || this.#logLines > logLines || this.#logBytes > logBytes) {
      this.logsDropped += 1;
      return;
    }
    // A run that continues has logged what its earlier turns log.
    this.sendTurns();
    const log = { type: "log", seq: this.#assignment.seq, level, time: Date.now() } as const;
    this.send(place !== undefined && SOURCE_LOCATION_PATTERN.test(place) ? { ...log, place } : log, [text]);
  }

  progress(text: string): void {
    if (this.#suppressSideEffect()) return;
    if (text.length <= 4_096) this.send({ type: "progress", seq: this.#assignment.seq }, [text]);
  }

  /** Sends a report of `ctx.span` with the time. A tool that is only prewarmed has no timeline. */
  span(text: string): void {
    const time = monotonicMs();
    this.#spanReports += 1;
    if (this.#assignment.call === undefined || this.#assignment.call.prewarm !== undefined) return;
    if (text.length > MAX_SPAN_REPORT || this.#spanReports > MAX_SPAN_REPORTS) return;
    this.send({ type: "span", seq: this.#assignment.seq, time }, [text]);
  }

  /** Sends a capability call, or returns why it is not sent. */
  capability(requestId: number, name: string, text: string): "denied" | "too-large" | undefined {
    const { seq, call } = this.#assignment;
    const granted = call !== undefined && (name === "log" || call.tool.granted.includes(name));
    if (this.#suppressSideEffect() || !granted) return "denied";
    if (text.length > this.#limits.inputBytes) return "too-large";
    this.sendTurns();
    this.send({ type: "capability", seq, requestId, name }, [text]);
    return undefined;
  }

  /**
   * Sends the turns that a recorded call has taken since the last report. What the guest does next depends on them.
   * @returns whether there were some
   */
  sendTurns(): boolean {
    const report = this.isolate?.takeTurnReport();
    if (report === undefined) return false;
    const start = this.#hasSentStart ? undefined : this.isolate?.recordedStart;
    this.#hasSentStart = true;
    const message = { type: "turns", seq: this.#assignment.seq } as const;
    this.#sendNow(
      {
        ...message,
        ...(start === undefined ? {} : { start: { seed: start.seed, now: start.now } }),
        ...(report.isTruncated ? { isTruncated: true } : {}),
      },
      [report.text],
    );
    return true;
  }

  /** Adds a chunk. Returns false if the chunks together exceed the output limits. */
  chunk(text: string, bytes: GuestBytes | undefined): boolean {
    return this.#chunks?.add(text, bytes) !== false;
  }

  /** Sends the chunks that wait, and drops later ones. */
  closeChunks(): void {
    this.#chunks?.close();
  }
}
