// The rows of a timeline: spans in order, with the depth and the start at which they are drawn, and those of open nested calls.
import type { CallTimeline } from "glovebox/client";
import { toVisibleText } from "../../../host/util/visible-text.ts";

export type Span = CallTimeline["spans"][number];

export interface TimelineCall {
  readonly callId: string;
  readonly toolName: string;
  readonly durationMs: number;
  readonly code: string;
  readonly timeline?: readonly Span[];
  readonly calls?: readonly TimelineCall[];
  readonly isOpen?: true;
}

export interface TimelineRow {
  readonly key: string;
  readonly depth: number;
  readonly span: Span;
  /** Start in ms after the outermost call was accepted. */
  readonly startMs: number;
  readonly nested: TimelineCall | undefined;
}

/** Kinds of spans that happen while the tool runs, and those that others can be part of. */
const INSIDE: readonly string[] = ["capability", "tool"];

const ENCLOSING: readonly string[] = ["execute", "tool"];

/** Room for rounding in times that were measured by two clocks, in ms. */
const SLACK_MS = 0.05;

/** Returns a key for each span, which it keeps while others come before it: a running call gets new spans. */
function keysOf(spans: readonly Span[], path: string): readonly string[] {
  const counts = new Map<string, number>();
  return spans.map(({ kind, name, startMs, callId }) => {
    const key = `${path}/${callId ?? `${kind} ${name} ${startMs}`}`;
    const count = (counts.get(key) ?? 0) + 1;
    counts.set(key, count);
    return count === 1 ? key : `${key} ${count}`;
  });
}

/**
 * Lists the rows of a timeline; those of nested calls only where they are open. What happened while the tool ran is below its execution, and
 * below the tool's own spans that enclose it.
 */
export function toRows(
  spans: readonly Span[],
  calls: readonly TimelineCall[],
  open: ReadonlySet<string>,
  at: { readonly depth: number; readonly offsetMs: number; readonly path: string },
): readonly TimelineRow[] {
  const byId = new Map(calls.map((call) => [call.callId, call]));
  const rows: TimelineRow[] = [];
  /** Ends of the spans that enclose what comes next. */
  let enclosing: number[] = [];
  const keys = keysOf(spans, at.path);
  for (const [index, span] of spans.entries()) {
    const end = span.startMs + span.durationMs;
    const isInside = INSIDE.includes(span.kind);
    // What begins after the end of a span follows it, however short both are.
    enclosing = isInside ? enclosing.filter((until) => span.startMs < until && end <= until + SLACK_MS) : [];
    const key = keys[index] as string;
    const nested = span.callId === undefined ? undefined : byId.get(span.callId);
    const startMs = at.offsetMs + span.startMs;
    const depth = at.depth + enclosing.length;
    rows.push({ key, depth, span, startMs, nested });
    if (ENCLOSING.includes(span.kind)) enclosing.push(end);
    if (nested?.timeline === undefined || !open.has(key)) continue;
    rows.push(...toRows(nested.timeline, nested.calls ?? [], open, { depth: depth + 1, offsetMs: startMs, path: key }));
  }
  return rows;
}

/** Lists the keys of all rows with a nested call, at any depth. */
export function nestedKeys(spans: readonly Span[], calls: readonly TimelineCall[], path: string): readonly string[] {
  const byId = new Map(calls.map((call) => [call.callId, call]));
  const keys = keysOf(spans, path);
  return spans.flatMap(({ callId }, index) => {
    const nested = callId === undefined ? undefined : byId.get(callId);
    if (nested?.timeline === undefined) return [];
    const key = keys[index] as string;
    return [key, ...nestedKeys(nested.timeline, nested.calls ?? [], key)];
  });
}

const STAGES: { readonly [kind: string]: string } = {
  validate: "Validate",
  queue: "Wait for a process",
  start: "Start the isolate",
  execute: "Run the tool",
  output: "Check the output",
};

/** What a call waited for before it began to run, by the name of its span. */
const WAITS: { readonly [name: string]: string } = {
  queued: "Wait in the queue",
  waiting_for_approval: "Wait for approval",
};

export function describeSpan({ kind, name, operation, target }: Span): string {
  if (kind === "tool") return toVisibleText(name);
  if (kind === "queue") return WAITS[name] ?? (STAGES.queue as string);
  const parts = [name, operation, target].filter((part) => part !== undefined && part !== "");
  return STAGES[kind] ?? toVisibleText(parts.join(" "));
}
