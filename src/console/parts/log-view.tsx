// The log lines of a call, with their time since its start and their source location. A line opens to its whole text.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { toVisibleText } from "../../host/util/visible-text.ts";
import { formatMs, formatNumber } from "../state/format.ts";
import { CopyButton } from "./controls.tsx";
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
/** Fewer lines need no filter. */
const MIN_FILTERED = 20;
const LEVELS = ["debug", "info", "warn", "error"];

interface LogViewProps {
  readonly lines: readonly LogLine[];
  /** Start of the call in ms since 1970. */
  readonly startedAt: number;
  readonly isLive: boolean;
  /** Lines that the call has written beyond its limits, as far as they were counted. */
  readonly dropped?: number | undefined;
}

export function LogView({ lines, startedAt, isLive, dropped = 0 }: LogViewProps): JSX.Element {
  const [text, setText] = useState("");
  const [level, setLevel] = useState("");
  const [opened, setOpened] = useState<LogLine>();
  const shown = useMemo(() => filterLines(lines, text, level), [lines, text, level]);
  if (lines.length === 0)
    return dropped > 0 ? (
      <Dropped lines={dropped} />
    ) : (
      <p class="faint">{isLive ? "Waiting for log lines…" : "The call wrote no log lines."}</p>
    );
  const isFiltered = text !== "" || level !== "";
  return (
    <div class="logs">
      {lines.length < MIN_FILTERED && !isFiltered ? null : (
        <search class="filters">
          <input
            type="search"
            aria-label="Text in the log"
            placeholder={`Find in ${formatNumber(lines.length)} lines`}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <select aria-label="Level" value={level} onChange={(event) => setLevel(event.currentTarget.value)}>
            <option value="">All levels</option>
            {LEVELS.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
          {isFiltered ? (
            <span class="faint" role="status">
              {formatNumber(shown.length)} lines
            </span>
          ) : null}
        </search>
      )}
      {shown.length === 0 ? (
        <p class="faint">No line matches.</p>
      ) : (
        <VirtualList
          count={shown.length}
          rowHeight={ROW_HEIGHT}
          label="Log lines"
          role="log"
          class="log"
          isFollowing={isLive}
          isShrinking
          row={(index) => (
            <Line
              line={shown[index] as LogLine}
              startedAt={startedAt}
              isOpen={shown[index] === opened}
              onOpen={setOpened}
            />
          )}
        />
      )}
      {dropped > 0 ? <Dropped lines={dropped} /> : null}
      {opened === undefined ? null : (
        <section class="json" aria-label="The whole line">
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard */}
          <pre tabIndex={0}>{toVisibleText(opened.message)}</pre>
          <div class="row end">
            {opened.place === undefined ? null : <span class="faint">{opened.place}</span>}
            <CopyButton text={opened.message} label="Copy" />
          </div>
        </section>
      )}
    </div>
  );
}

/** A call that writes very many lines does not count all of them. */
const Dropped = ({ lines }: { readonly lines: number }): JSX.Element => (
  <p class="faint">
    {lines === 1 ? "1 more line was not kept" : `${formatNumber(lines)} or more further lines were not kept`}: the log
    reached <code>limits.logLines</code> or <code>limits.logBytes</code>.
  </p>
);

function filterLines(lines: readonly LogLine[], text: string, level: string): readonly LogLine[] {
  if (text === "" && level === "") return lines;
  const wanted = text.toLowerCase();
  return lines.filter((line) => (level === "" || line.level === level) && line.message.toLowerCase().includes(wanted));
}

interface LineProps {
  readonly line: LogLine;
  readonly startedAt: number;
  readonly isOpen: boolean;
  readonly onOpen: (line: LogLine | undefined) => void;
}

function Line({ line, startedAt, isOpen, onOpen }: LineProps): JSX.Element {
  const { level, message, time, place = "" } = line;
  return (
    <button
      type="button"
      class={`log-line ${level}`}
      aria-expanded={isOpen}
      onClick={() => onOpen(isOpen ? undefined : line)}
    >
      <span class="log-at">{formatMs(Math.max(0, time - startedAt))}</span>
      <span class="log-level">{level}</span>
      <span class="log-text">{toVisibleText(message.slice(0, MAX_LINE_LENGTH)).replaceAll("\n", " ⏎ ")}</span>
      <span class="log-place">{place}</span>
    </button>
  );
}
