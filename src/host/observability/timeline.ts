// Records what a call did and when, for `context.timeline`: its stages, and each use of a capability.
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { SpanDetails, TimelineSpan } from "../contract/timeline-span.ts";
import type { ToolUsage } from "../contract/tool-call.ts";

import type { ToolSpan, ToolSpans } from "./tool-spans.ts";

type Writable<Value> = { -readonly [Key in keyof Value]: Value[Key] };

const MAX_TARGET_LENGTH = 500;
/** Microseconds are enough, and make shorter JSON. */
const round = (ms: number): number => Math.max(0, Math.round(ms * 1_000) / 1_000);

/** One use of a capability, while it runs and for as long as a response's body is read. */
export class CapabilityUse {
  readonly #span: Writable<TimelineSpan>;
  readonly #acceptedAt: number;
  isOpen = true;

  constructor(span: Writable<TimelineSpan>, acceptedAt: number) {
    this.#span = span;
    this.#acceptedAt = acceptedAt;
  }

  describe({ target, ...details }: SpanDetails): void {
    Object.assign(this.#span, details, target === undefined ? {} : { target: target.slice(0, MAX_TARGET_LENGTH) });
  }

  /** Adds the response that has arrived. Its body may follow. */
  responded(status: number): void {
    this.describe({ status, waitMs: round(performance.now() - this.#acceptedAt - this.#span.startMs) });
  }

  /** Returns the span, and for how long it has lasted if it has not ended. */
  soFar(now: number): TimelineSpan {
    if (!this.isOpen) return { ...this.#span };
    return { ...this.#span, durationMs: round(now - this.#acceptedAt - this.#span.startMs), isOpen: true };
  }

  addBytes(direction: "bytesIn" | "bytesOut", bytes: number): void {
    this.#span[direction] = (this.#span[direction] ?? 0) + bytes;
  }

  /** Sets the end, also later than before: a request ends with its response's body. */
  ended(code: TimelineSpan["code"]): void {
    this.isOpen = false;
    this.#span.code = code;
    this.#span.durationMs = round(performance.now() - this.#acceptedAt - this.#span.startMs);
  }
}

/** The timeline of one call. Holds as many spans as the call may use capabilities (`limits.maxCapabilityCalls`), and a few more. */
export class Timeline {
  readonly #acceptedAt: number;
  readonly #spans: TimelineSpan[] = [];
  readonly #uses: CapabilityUse[] = [];
  #executeAt: number | undefined;
  /** When the first use of a capability began. */
  #firstUseAt: number | undefined;
  #limits: SpanDetails["limits"];
  #outputAt: number | undefined;
  /** Whether the executor queues the call for a worker process, and when it got one and its tool began, for a call that runs. */
  #isQueued = false;
  #placedAt: number | undefined;
  #startedAt: number | undefined;

  /** @param acceptedAt time by performance.now() */
  constructor(acceptedAt: number) {
    this.#acceptedAt = acceptedAt;
  }

  #stage(kind: TimelineSpan["kind"], from: number, to: number, code: TimelineSpan["code"] = "ok"): TimelineSpan {
    const startMs = round(from - this.#acceptedAt);
    const limits = kind === "execute" && this.#limits !== undefined ? { limits: this.#limits } : {};
    return { kind, name: kind, startMs, durationMs: round(to - from), code, ...limits };
  }

  #toolSpan({ name, from, to, code, attributes, isOpen }: ToolSpan): TimelineSpan {
    return {
      kind: "tool",
      name,
      startMs: round(from - this.#acceptedAt),
      durationMs: round(to - from),
      code,
      ...(attributes === undefined ? {} : { attributes }),
      ...(isOpen === undefined ? {} : { isOpen }),
    };
  }

  #add(kind: TimelineSpan["kind"], from: number, to: number, code: TimelineSpan["code"] = "ok"): void {
    this.#spans.push(this.#stage(kind, from, to, code));
  }

  /** The call is valid and goes to its executor. */
  executing({ timeoutMs, cpuMs, memoryMiB }: Limits): void {
    this.#limits = { timeoutMs, cpuMs, memoryMiB };
    this.#executeAt = performance.now();
    this.#add("validate", this.#acceptedAt, this.#executeAt);
  }

  /** The executor has ended. Its worker process has reported how long the call waited, started and ran, by its own clock. */
  executed(
    { queueMs, startMs, executeMs }: ToolUsage,
    code: TimelineSpan["code"],
    to: number,
    toolSpans: ToolSpans | undefined,
  ): void {
    const from = this.#executeAt ?? to;
    this.#outputAt = to;
    // A busy host notices the end late: the tool ran no later than its first span or use of a capability began.
    const ranAt = Math.max(from, Math.min(to - executeMs, toolSpans?.begunAt ?? to, this.#firstUseAt ?? to));
    const startAt = Math.min(ranAt, from + queueMs);
    const runAt = Math.min(ranAt, startAt + startMs);
    if (startAt > from) this.#add("queue", from, startAt);
    if (runAt > startAt) this.#add("start", startAt, runAt);
    // A call that never got a worker process was queued until its end.
    if (to > runAt) this.#add("execute", runAt, to, code);
    for (const span of toolSpans?.within(runAt, to) ?? []) {
      this.#spans.push(this.#toolSpan(span));
    }
  }

  /** The executor has queued the call for a worker process. */
  queued(): void {
    this.#isQueued = true;
    this.placed(undefined);
  }

  /** A worker process has the call. Its tool has not begun, also if an earlier process had it. @param at by performance.now() */
  placed(at: number | undefined): void {
    this.#placedAt = at;
    this.#startedAt = undefined;
  }

  /** The tool has begun. */
  started(): void {
    this.#startedAt ??= performance.now();
  }

  /**
   * Returns the spans so far of a call that runs, by their start: its stages, and the newest of the others. The host sees when a stage ends a
   * moment after the worker process, whose report counts when the call has ended.
   * @param max number of uses of capabilities and of the tool's own spans, each
   */
  soFar(max: number, toolSpans: ToolSpans | undefined): readonly TimelineSpan[] {
    const now = performance.now();
    const ended = this.#spans.filter(({ kind }) => kind !== "capability");
    const uses = this.#uses.slice(-max).map((use) => use.soFar(now));
    return [...ended, ...this.#openStages(now, max, toolSpans), ...uses].toSorted(byStart);
  }

  /** Returns the stages that the executor has not reported. */
  #openStages(now: number, max: number, toolSpans: ToolSpans | undefined): readonly TimelineSpan[] {
    const open = (kind: TimelineSpan["kind"], from: number): TimelineSpan => ({
      ...this.#stage(kind, from, now),
      isOpen: true,
    });
    const from = this.#executeAt;
    if (from === undefined) return [open("validate", this.#acceptedAt)];
    if (this.#outputAt !== undefined) return [open("output", this.#outputAt)];
    if (this.#isQueued && this.#placedAt === undefined) return [open("queue", from)];
    const placedAt = Math.max(from, this.#placedAt ?? from);
    const signs = [this.#startedAt, this.#firstUseAt, toolSpans?.begunAt].filter(
      (at) => at !== undefined && at >= placedAt,
    );
    const begunAt = this.#isQueued ? Math.min(...(signs as readonly number[])) : from;
    const queued = this.#isQueued ? [this.#stage("queue", from, placedAt)] : [];
    if (begunAt > now) return [...queued, open("start", placedAt)];
    const started = this.#isQueued ? [this.#stage("start", placedAt, begunAt)] : [];
    const own = toolSpans?.within(begunAt, now, true).slice(-max) ?? [];
    return [...queued, ...started, open("execute", begunAt), ...own.map((span) => this.#toolSpan(span))];
  }

  beginCapability(name: string): CapabilityUse {
    const now = performance.now();
    this.#firstUseAt ??= now;
    const startMs = round(now - this.#acceptedAt);
    const span: Writable<TimelineSpan> = { kind: "capability", name, startMs, durationMs: 0, code: "ok" };
    const use = new CapabilityUse(span, this.#acceptedAt);
    this.#spans.push(span);
    this.#uses.push(use);
    return use;
  }

  /** Ends the timeline and returns its spans by their start. Uses of capabilities that are still open end with the call. */
  end(code: TimelineSpan["code"]): readonly TimelineSpan[] {
    const now = performance.now();
    if (this.#executeAt === undefined) this.#add("validate", this.#acceptedAt, now, code);
    else if (this.#outputAt !== undefined) this.#add("output", this.#outputAt, now, code);
    for (const use of this.#uses) if (use.isOpen) use.ended("CANCELLED");
    return this.#spans.toSorted(byStart);
  }
}

/** Orders spans with the same start: a stage of the call comes before what happens in it. */
const rankOf = ({ kind }: TimelineSpan): number => (kind === "capability" || kind === "tool" ? 1 : 0);
const byStart = (one: TimelineSpan, other: TimelineSpan): number =>
  one.startMs - other.startMs || rankOf(one) - rankOf(other);
