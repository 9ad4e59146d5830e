// The log lines of a call, with their time since its start and their source location.
import type { JSX } from "preact";
import { formatMs } from "../state/format.ts";
import { VirtualList } from "./virtual-list.tsx";

export interface LogLine {
  readonly level: string;
  readonly message: string;
  /** Ms since 1970. */
  readonly time: number;
  /** Source location: `tool.ts:3:5`. */
  readonly place?: string;
}

const ROW_HEIGHT = 22;
const MAX_LINE_LENGTH = 2_000;

interface LogViewProps {
  readonly lines: readonly LogLine[];
  /** Start of the call in ms since 1970. */
  readonly startedAt: number;
  readonly isLive: boolean;
}

export function LogView({ lines, startedAt, isLive }: LogViewProps): JSX.Element {
  if (lines.length === 0)
    return <p class="faint">{isLive ? "Waiting for log lines…" : "The call wrote no log lines."}</p>;
  return (
    <VirtualList
      count={lines.length}
      rowHeight={ROW_HEIGHT}
      label="Log lines"
      role="log"
      class="log"
      isFollowing={isLive}
      isShrinking
      row={(index) => <Line line={lines[index] as LogLine} startedAt={startedAt} />}
    />
  );
}

function Line({ line, startedAt }: { readonly line: LogLine; readonly startedAt: number }): JSX.Element {
  const { level, message, time, place = "" } = line;
  return (
    <div class={`log-line ${level}`} title={message.slice(0, MAX_LINE_LENGTH)}>
      <span class="log-at">{formatMs(Math.max(0, time - startedAt))}</span>
      <span class="log-level">{level}</span>
      <span class="log-text">{message.slice(0, MAX_LINE_LENGTH)}</span>
      <span class="log-place">{place}</span>
    </div>
  );
}
