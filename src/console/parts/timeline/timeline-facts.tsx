// Facts next to the bars of a timeline: those of a span, shares of the time, and what the call used of its limits.
import type { ComponentChildren, JSX } from "preact";
import { toVisibleText } from "../../../host/util/visible-text.ts";
import { formatBytes, formatMs } from "../../state/format.ts";
import { Facts } from "../controls.tsx";
import { describeSpan, type Span, type TimelineRow } from "./timeline-rows.ts";

/** Usage of a call that limits apply to. */
export interface TimelineUsage {
  readonly cpuMs: number;
  readonly peakBytes: number;
  readonly heapBytes: number;
}

/** Returns the attributes that the tool's author has set on a span. */
const attributesOf = (span: Span): { readonly [name: string]: unknown } =>
  (span as { readonly attributes?: { readonly [name: string]: unknown } }).attributes ?? {};

interface SpanFactsProps {
  readonly row: TimelineRow;
  /** Returns the URL of a nested call's page; undefined if there is none. */
  readonly urlOfCall: ((callId: string) => string) | undefined;
}

export function SpanFacts({ row, urlOfCall }: SpanFactsProps): JSX.Element {
  const { span, startMs } = row;
  const facts: (readonly [string, ComponentChildren])[] = [
    ["Start", formatMs(startMs)],
    [span.isOpen === true ? "Duration so far" : "Duration", formatMs(span.durationMs)],
    span.isOpen === true ? ["State", "running"] : ["Outcome", span.code],
  ];
  if (span.target !== undefined)
    facts.unshift(["Target", toVisibleText([span.operation, span.target].join(" ").trim())]);
  if (span.status !== undefined) facts.push(["Status", String(span.status)]);
  if (span.waitMs !== undefined) facts.push(["Time to headers", formatMs(span.waitMs)]);
  if (span.bytesOut !== undefined) facts.push(["Sent", formatBytes(span.bytesOut)]);
  if (span.bytesIn !== undefined) facts.push(["Received", formatBytes(span.bytesIn)]);
  const url = span.callId === undefined ? undefined : urlOfCall?.(span.callId);
  if (span.callId !== undefined)
    facts.push(["Nested call", url === undefined ? span.callId : <a href={url}>{span.callId}</a>]);
  for (const [name, value] of Object.entries(attributesOf(span)))
    facts.push([toVisibleText(name), toVisibleText(String(value))]);
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
export function Shares({ spans }: { readonly spans: readonly Span[] }): JSX.Element {
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
export function Used({ spans, totalMs, usage }: UsedProps): JSX.Element | null {
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
