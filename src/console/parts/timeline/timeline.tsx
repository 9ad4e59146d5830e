// The timeline of a call as a chart: a bar for each stage and each use of a capability. Nested calls open below the use that made them.
import type { CallTimeline } from "glovebox/client";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { formatMs, formatNumber } from "../../state/format.ts";
import { VirtualList } from "../virtual-list.tsx";
import { Shares, SpanFacts, type TimelineUsage, Used } from "./timeline-facts.tsx";
import { describeSpan, nestedKeys, type TimelineCall, type TimelineRow, toRows } from "./timeline-rows.ts";

const ROW_HEIGHT = 26;

/** A call keeps as many spans of the tool's own. */
const MAX_TOOL_SPANS = 1_000;

/** Narrowest bar in percent. */
const MIN_WIDTH = 0.15;

interface TimelineProps {
  readonly timeline: Pick<CallTimeline, "spans" | "calls">;
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
  const calls = timeline.calls as readonly TimelineCall[];
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
  const isCut = timeline.spans.filter(({ kind }) => kind === "tool").length >= MAX_TOOL_SPANS;
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
              <SpanRow
                row={rows[index] as TimelineRow}
                endMs={endMs}
                isOpen={open.has((rows[index] as TimelineRow).key)}
                isSelected={selected === (rows[index] as TimelineRow).key}
                onToggle={toggle}
                onSelect={setSelected}
              />
            )}
          />
          {isCut ? (
            <p class="faint">The first {formatNumber(MAX_TOOL_SPANS)} spans of the tool&apos;s own are kept.</p>
          ) : null}
          {chosen === undefined ? null : <SpanFacts row={chosen} urlOfCall={urlOfCall} />}
        </div>
        {beside}
      </div>
    </>
  );
}

interface RowProps {
  readonly row: TimelineRow;
  readonly endMs: number;
  readonly isOpen: boolean;
  readonly isSelected: boolean;
  readonly onToggle: (key: string) => void;
  readonly onSelect: (key: string) => void;
}

function SpanRow({ row, endMs, isOpen, isSelected, onToggle, onSelect }: RowProps): JSX.Element {
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
