// The unfinished timeline of a running call, with those of its nested calls, for an operator who watches it.
import type { TimelineSpan } from "../contract/timeline-span.ts";
import type { NestedCall } from "../contract/tool-call.ts";
import type { OpenCalls, TrackedCall } from "./open-calls.ts";

/** Spans of a kind that are returned of one call, the newest: a call can have tens of thousands, and a watcher reads them every second. */
const MAX_SPANS = 500;
/** Spans of all nested calls together. */
const MAX_NESTED_SPANS = 1_000;

/** What a call that runs has done so far. */
export interface OpenTimeline {
  /** Its stages and the newest 500 uses of capabilities and spans of the tool, by their start. */
  readonly spans: readonly TimelineSpan[];
  /** The nested calls of these spans, ended or not. The timelines of some are left out if they have more than 1,000 spans together. */
  readonly calls: readonly NestedCall[];
}

/** Returns the unfinished timeline of a call; undefined if its caller did not request one. */
export function timelineOf(call: TrackedCall, open: OpenCalls): OpenTimeline | undefined {
  const spans = call.progress?.timelineSoFar(MAX_SPANS);
  return spans === undefined ? undefined : { spans, calls: new NestedReader(open).callsOf(call, spans) };
}

class NestedReader {
  readonly #openByParent: ReadonlyMap<TrackedCall | undefined, readonly TrackedCall[]>;
  #left = MAX_NESTED_SPANS;

  constructor(open: OpenCalls) {
    this.#openByParent = Map.groupBy(open.of(undefined), ({ parent }) => parent);
  }

  callsOf(call: TrackedCall, spans: readonly TimelineSpan[]): readonly NestedCall[] {
    const shown = new Set(spans.flatMap(({ callId }) => callId ?? []));
    const ended = (call.chain?.calls ?? []).filter(({ callId }) => shown.has(callId));
    const running = (this.#openByParent.get(call) ?? []).filter(({ callId }) => shown.has(callId));
    // Those that run are what a watcher looks for.
    return [...running.map((one) => this.#toRunning(one)), ...ended.map((one) => this.#withinLimit(one))];
  }

  #toRunning(call: TrackedCall): NestedCall {
    const { callId, toolName, ageMs } = call;
    const timeline = this.#left > 0 ? call.progress?.timelineSoFar(MAX_SPANS) : undefined;
    this.#left -= timeline?.length ?? 0;
    const calls = timeline === undefined ? [] : this.callsOf(call, timeline);
    return {
      callId,
      toolName,
      durationMs: Math.round(ageMs),
      cpuMs: 0,
      code: "ok",
      isOpen: true,
      ...(timeline === undefined ? {} : { timeline }),
      ...(calls.length === 0 ? {} : { calls }),
    };
  }

  #withinLimit({ timeline, calls, ...call }: NestedCall): NestedCall {
    const length = timeline?.length ?? 0;
    if (length > this.#left) return call;
    this.#left -= length;
    return {
      ...call,
      ...(timeline === undefined ? {} : { timeline }),
      ...(calls === undefined ? {} : { calls: calls.map((one) => this.#withinLimit(one)) }),
    };
  }
}
