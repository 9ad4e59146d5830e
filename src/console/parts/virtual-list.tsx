// A list that draws only the rows that are visible, so that 100,000 of them scroll as smoothly as ten.
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  type VirtualItem,
  Virtualizer,
} from "@tanstack/virtual-core";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";

interface VirtualListProps {
  readonly count: number;
  readonly rowHeight: number;
  readonly label: string;
  readonly class?: string;
  /** ARIA role of the list. @default "list" */
  readonly role?: "list" | "log";
  readonly header?: JSX.Element;
  readonly row: (index: number) => JSX.Element;
  /** Called when the end of the list comes into view. */
  readonly onEnd?: (() => void) | undefined;
  /** Whether the list stays at its end when rows are added, unless the user has scrolled up. */
  readonly isFollowing?: boolean;
  /** Identifies a row: what is shown stays in its place when rows are added before it. */
  readonly keyOf?: (index: number) => string;
  /** Whether a short list is only as high as its rows. */
  readonly isShrinking?: boolean;
  /** Whether a short list has room for a header, which is as high as a row. */
  readonly hasHeader?: boolean;
}

const OVERSCAN = 12;

export function VirtualList(props: VirtualListProps): JSX.Element {
  const {
    count,
    rowHeight,
    label,
    role = "list",
    header,
    row,
    onEnd,
    isFollowing = false,
    isShrinking = false,
    hasHeader = false,
    keyOf,
  } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((round: number) => round + 1, 0);
  const isAtEnd = useRef(true);
  const options = {
    count,
    estimateSize: () => rowHeight,
    overscan: OVERSCAN,
    getScrollElement: () => scroller.current,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => redraw(undefined),
  };
  const [virtualizer] = useState(() => new Virtualizer<HTMLDivElement, Element>(options));
  virtualizer.setOptions(options);
  useLayoutEffect(() => virtualizer._didMount(), [virtualizer]);
  useLayoutEffect(() => virtualizer._willUpdate());
  const items = virtualizer.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  useEffect(() => {
    if (last >= count - 1 && count > 0) onEnd?.();
  }, [last, count, onEnd]);
  useEffect(() => {
    if (isFollowing && isAtEnd.current && count > 0) virtualizer.scrollToIndex(count - 1, { align: "end" });
  }, [count, isFollowing, virtualizer]);
  const anchor = useRef<{ readonly index: number; readonly key: string }>(undefined);
  /** Remembers the first visible row. At its beginning, the list shows what is new. */
  const noteAnchor = (): void => {
    const top = scroller.current?.scrollTop ?? 0;
    const index = Math.floor(top / rowHeight);
    anchor.current = top > rowHeight && index < count && keyOf !== undefined ? { index, key: keyOf(index) } : undefined;
  };
  useLayoutEffect(() => {
    const element = scroller.current;
    const { index = 0, key } = anchor.current ?? {};
    if (element === null || keyOf === undefined || key === undefined) return;
    let now = index;
    while (now < count && keyOf(now) !== key) now += 1;
    if (now < count && now !== index) element.scrollTop += (now - index) * rowHeight;
    noteAnchor();
  });
  const onScroll = (): void => {
    const element = scroller.current;
    noteAnchor();
    if (element !== null) isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < rowHeight;
  };
  return (
    // biome-ignore lint/a11y/useAriaPropsSupportedByRole: the role is that of a list or a log, which have names
    <div
      ref={scroller}
      class={`virtual ${props.class ?? ""}`}
      role={role}
      aria-label={label}
      tabIndex={0}
      {...(isShrinking ? { style: { height: `${(count + Number(hasHeader)) * rowHeight + 4}px` } } : {})}
      onScroll={onScroll}
    >
      {header}
      <div class="virtual-space" style={{ height: `${virtualizer.getTotalSize()}px` }} role="presentation">
        {items.map((item: VirtualItem) => (
          <div
            key={item.key as number}
            class="virtual-row"
            role={role === "list" ? "listitem" : "presentation"}
            style={{ height: `${item.size}px`, transform: `translateY(${item.start}px)` }}
          >
            {row(item.index)}
          </div>
        ))}
      </div>
    </div>
  );
}
