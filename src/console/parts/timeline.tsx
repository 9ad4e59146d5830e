// The timeline of a call as a chart: a bar for each stage and each use of a capability. Nested calls open below the use that made them.

import type { CallTimeline as TimelineData } from "glovebox/client";
import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { formatBytes, formatMs } from "../state/format.ts";
import { Facts } from "./controls.tsx";
import { VirtualList } from "./virtual-list.tsx";

export type Span = TimelineData["spans"][number];
interface NestedCall {
  readonly callId: string;
  readonly toolName: string;
  readonly durationMs: number;
  readonly code: string;
  readonly timeline?: readonly Span[];
  readonly calls?: readonly NestedCall[];
  readonly isOpen?: true;
}

interface Row {
  readonly key: string;
  readonly depth: number;
  readonly span: Span;
  /** Start in ms after the outermost call was accepted. */
  readonly startMs: number;
  readonly nested: NestedCall | undefined;
}

const ROW_HEIGHT = 26;
/** Narrowest bar in percent. */
const MIN_WIDTH = 0.15;

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
function toRows(
  spans: readonly Span[],
  calls: readonly NestedCall[],
  open: ReadonlySet<string>,
  at: { readonly depth: number; readonly offsetMs: number; readonly path: string },
): readonly Row[] {
  const byId = new Map(calls.map((call) => [call.callId, call]));
  const rows: Row[] = [];
  /** Ends of the spans that enclose what comes next. */
  let enclosing: number[] = [];
  const keys = keysOf(spans, at.path);
  for (const [index, span] of spans.entries()) {
    const end = span.startMs + span.durationMs;
    const isInside = INSIDE.includes(span.kind);
    enclosing = isInside ? enclosing.filter((until) => end <= until + SLACK_MS) : [];
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
function nestedKeys(spans: readonly Span[], calls: readonly NestedCall[], path: string): readonly string[] {
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
  if (kind === "tool") return name;
  if (kind === "queue") return WAITS[name] ?? (STAGES.queue as string);
  return STAGES[kind] ?? [name, operation, target].filter((part) => part !== undefined && part !== "").join(" ");
}

/** Usage of a call that limits apply to. */
export interface TimelineUsage {
  readonly cpuMs: number;
  readonly peakBytes: number;
  readonly heapBytes: number;
}

interface TimelineProps {
  readonly timeline: Pick<TimelineData, "spans" | "calls">;
  /** Whether the call runs, so that its timeline grows. */
  readonly isRunning?: boolean;
  /** What is shown next to the spans on a wide screen, and below them on a narrow one. */
  readonly beside?: JSX.Element | undefined;
  /** Returns the URL of a nested call's page; undefined if there is none. */
  readonly urlOfCall?: ((callId: string) => string) | undefined;
  readonly totalMs: number;
  readonly usage?: TimelineUsage | null | undefined;
}

export function Timeline({
  timeline,
  totalMs,
  usage,
  urlOfCall,
  beside,
  isRunning = false,
}: TimelineProps): JSX.Element {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [selected, setSelected] = useState<string>();
  const calls = timeline.calls as readonly NestedCall[];
  const rows = useMemo(
    () => toRows(timeline.spans, calls, open, { depth: 0, offsetMs: 0, path: "" }),
    [timeline, calls, open],
  );
  const endMs = useMemo(() => {
    let most = totalMs;
    for (const { startMs, durationMs } of timeline.spans) most = Math.max(most, startMs + durationMs);
    return Math.max(most, 0.001);
  }, [timeline, totalMs]);
  const openable = useMemo(() => nestedKeys(timeline.spans, calls, ""), [timeline, calls]);
  if (timeline.spans.length === 0)
    return (
      <div class="timeline-and-logs">
        <p class="faint">
          {isRunning
            ? "Nothing has happened yet."
            : "There is no timeline: it was too long, or there was no room for it."}
        </p>
        {beside}
      </div>
    );
  const toggle = (key: string): void => {
    const next = new Set(open);
    if (!next.delete(key)) next.add(key);
    setOpen(next);
  };
  const chosen = rows.find(({ key }) => key === selected);
  const isAllOpen = openable.every((key) => open.has(key));
  return (
    <>
      <div class="card columns">
        <Shares spans={timeline.spans} />
        <Used spans={timeline.spans} totalMs={totalMs} usage={usage} />
      </div>
      <div class={beside === undefined ? "" : "timeline-and-logs"}>
        <div class="timeline">
          {openable.length === 0 ? null : (
            <button
              type="button"
              class="button quiet small"
              onClick={() => setOpen(new Set(isAllOpen ? [] : openable))}
            >
              {isAllOpen
                ? "Close all nested calls"
                : openable.length === 1
                  ? "Open the nested call"
                  : `Open all ${openable.length} nested calls`}
            </button>
          )}
          <div class="timeline-scale" aria-hidden="true">
            {[0, 0.25, 0.5, 0.75, 1].map((share) => (
              <span key={share}>{formatMs(endMs * share)}</span>
            ))}
          </div>
          <VirtualList
            count={rows.length}
            rowHeight={ROW_HEIGHT}
            label="Spans of the call"
            class="timeline-rows"
            isShrinking
            row={(index) => (
              <TimelineRow
                row={rows[index] as Row}
                endMs={endMs}
                isOpen={open.has((rows[index] as Row).key)}
                isSelected={selected === (rows[index] as Row).key}
                onToggle={toggle}
                onSelect={setSelected}
              />
            )}
          />
          {chosen === undefined ? null : <SpanFacts row={chosen} urlOfCall={urlOfCall} />}
        </div>
        {beside}
      </div>
    </>
  );
}

interface RowProps {
  readonly row: Row;
  readonly endMs: number;
  readonly isOpen: boolean;
  readonly isSelected: boolean;
  readonly onToggle: (key: string) => void;
  readonly onSelect: (key: string) => void;
}

function TimelineRow({ row, endMs, isOpen, isSelected, onToggle, onSelect }: RowProps): JSX.Element {
  const { key, span, startMs, depth, nested } = row;
  const left = (startMs / endMs) * 100;
  const width = Math.max(MIN_WIDTH, (span.durationMs / endMs) * 100);
  const waited = span.waitMs === undefined || span.durationMs === 0 ? 0 : (span.waitMs / span.durationMs) * 100;
  const text = describeSpan(span);
  return (
    <div class={isSelected ? "span-row selected" : "span-row"}>
      <div class="span-name" style={{ paddingLeft: `${depth * 14}px` }}>
        {nested?.timeline === undefined ? (
          <span class="twisty" />
        ) : (
          <button
            type="button"
            class="twisty"
            aria-expanded={isOpen}
            aria-label={`Nested call of ${nested.toolName}`}
            onClick={() => onToggle(key)}
          >
            {isOpen ? "▾" : "▸"}
          </button>
        )}
        <button type="button" class="span-label" title={text} onClick={() => onSelect(key)}>
          {text}
        </button>
      </div>
      <div class="span-track">
        <div
          class={`bar ${span.kind} ${span.code === "ok" ? "" : "bad"} ${span.isOpen === true ? "open" : ""}`}
          style={{ left: `${Math.min(left, 100 - MIN_WIDTH)}%`, width: `${Math.min(width, 100 - left)}%` }}
        >
          {waited > 0 ? <i style={{ width: `${Math.min(100, waited)}%` }} /> : null}
        </div>
      </div>
      <div class="span-time">
        <span class={span.code === "ok" ? "span-code faint" : "span-code bad-text"}>
          {span.isOpen === true ? "running" : span.code === "ok" ? (span.status ?? "") : "failed"}
        </span>
        <span class="span-ms">{formatMs(span.durationMs)}</span>
      </div>
    </div>
  );
}

/** Returns the attributes that the tool's author has set on a span. */
const attributesOf = (span: Span): { readonly [name: string]: unknown } =>
  (span as { readonly attributes?: { readonly [name: string]: unknown } }).attributes ?? {};

interface SpanFactsProps {
  readonly row: Row;
  readonly urlOfCall: TimelineProps["urlOfCall"];
}

function SpanFacts({ row, urlOfCall }: SpanFactsProps): JSX.Element {
  const { span, startMs } = row;
  const facts: (readonly [string, ComponentChildren])[] = [
    ["Start", formatMs(startMs)],
    [span.isOpen === true ? "Duration so far" : "Duration", formatMs(span.durationMs)],
    span.isOpen === true ? ["State", "running"] : ["Outcome", span.code],
  ];
  if (span.target !== undefined) facts.unshift(["Target", [span.operation, span.target].join(" ").trim()]);
  if (span.status !== undefined) facts.push(["Status", String(span.status)]);
  if (span.waitMs !== undefined) facts.push(["Time to headers", formatMs(span.waitMs)]);
  if (span.bytesOut !== undefined) facts.push(["Sent", formatBytes(span.bytesOut)]);
  if (span.bytesIn !== undefined) facts.push(["Received", formatBytes(span.bytesIn)]);
  const url = span.callId === undefined ? undefined : urlOfCall?.(span.callId);
  if (span.callId !== undefined)
    facts.push(["Nested call", url === undefined ? span.callId : <a href={url}>{span.callId}</a>]);
  for (const [name, value] of Object.entries(attributesOf(span))) facts.push([name, String(value)]);
  return (
    <div class="card span-facts">
      <h3>{describeSpan(span)}</h3>
      <Facts facts={facts} />
    </div>
  );
}

const PARTS: readonly (readonly [kinds: readonly Span["kind"][], text: string, tone: string])[] = [
  [["validate", "queue"], "Waiting", "queue"],
  [["start"], "Starting", "start"],
  [["execute"], "Executing", "execute"],
  [["capability"], "In capabilities", "capability"],
  [["output"], "Output check", "output"],
];

/** Returns the time that is covered by spans, which may overlap. */
function coveredMs(spans: readonly Span[]): number {
  let covered = 0;
  let until = 0;
  for (const { startMs, durationMs } of spans) {
    const end = startMs + durationMs;
    if (end <= until) continue;
    covered += end - Math.max(until, startMs);
    until = end;
  }
  return covered;
}

/** How the time of a call is divided. Time in capabilities is part of executing. */
function Shares({ spans }: { readonly spans: readonly Span[] }): JSX.Element {
  const parts = PARTS.map(([kinds, text, tone]) => {
    const ms = coveredMs(spans.filter(({ kind }) => kinds.includes(kind)));
    return { text, tone, ms };
  });
  const most = Math.max(...parts.map(({ ms }) => ms), 0.001);
  return (
    <ul class="shares">
      {parts.map(({ text, tone, ms }) => (
        <li key={text}>
          <span>{text}</span>
          <span class="share-track">
            <i class={`bar ${tone}`} style={{ width: `${(ms / most) * 100}%` }} />
          </span>
          <span class="share-value">{formatMs(ms)}</span>
        </li>
      ))}
    </ul>
  );
}

const MIB = 1024 * 1024;

interface UsedProps {
  readonly spans: readonly Span[];
  readonly totalMs: number;
  readonly usage: TimelineUsage | null | undefined;
}

/** Shows how much of each limit the call used. */
function Used({ spans, totalMs, usage }: UsedProps): JSX.Element | null {
  const limits = spans.find(({ kind }) => kind === "execute")?.limits;
  if (limits === undefined) return null;
  const rows: (readonly [string, number, number, (value: number) => string])[] = [
    ["Time", totalMs, limits.timeoutMs, formatMs],
  ];
  // A call that runs has not reported what it uses.
  if (usage !== null && usage !== undefined) {
    const bytes = Math.max(usage.peakBytes, usage.heapBytes);
    rows.push(
      ["CPU time", usage.cpuMs, limits.cpuMs, formatMs],
      ["Memory", bytes, limits.memoryMiB * MIB, formatBytes],
    );
  }
  return (
    <ul class="shares">
      {rows.map(([name, used, limit, format]) => (
        <li key={name}>
          <span>{name}</span>
          <span class="share-track">
            <i
              class={`bar ${used / limit > 0.8 ? "bad" : "execute"}`}
              style={{ width: `${Math.min(100, (used / limit) * 100)}%` }}
            />
          </span>
          <span class="share-value">
            {format(used)} of {format(limit)}
          </span>
        </li>
      ))}
    </ul>
  );
}
