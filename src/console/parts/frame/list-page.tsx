// The frame of a page that shows one list of the API: heading, filter, loading, error and table.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { formatNumber } from "../../state/format.ts";
import { useResource } from "../../state/resource.ts";
import { address, setQuery } from "../../state/router.ts";
import { Empty, ErrorBox, Loading, PageHead } from "../controls.tsx";
import { type Column, Table } from "../table.tsx";

interface ListPageProps<Item> {
  readonly title: string;
  /** Names the data: the page loads again when it changes. */
  readonly id: string;
  readonly load: () => Promise<readonly Item[]>;
  readonly columns: (reload: () => void) => readonly Column<Item>[];
  readonly keyOf: (item: Item) => string;
  readonly empty: JSX.Element;
  readonly actions?: (reload: () => void) => ComponentChildren;
  /** Text in which the filter of the page looks. Default: no filter. */
  readonly textOf?: (item: Item) => string;
  readonly everyMs?: number;
  /** What is below the list: whether there is more of it. */
  readonly footer?: (items: readonly Item[], reload: () => void) => ComponentChildren;
  /** Rows that are drawn; the filter finds the others. @default 500 */
  readonly maxRows?: number;
  readonly children?: ComponentChildren;
}

const REFRESH_MS = 5_000;
/** A list of more items is loaded again at longer intervals: each time takes many requests. */
const LONG_LIST = 200;
const LONG_REFRESH_MS = 60_000;
/** A list of at most so many items needs no filter. */
const SHORT_LIST = 10;
const MAX_ROWS = 500;

export function ListPage<Item>(props: ListPageProps<Item>): JSX.Element {
  const {
    title,
    id,
    load,
    columns,
    keyOf,
    empty,
    actions,
    textOf,
    everyMs = REFRESH_MS,
    children,
    footer,
    maxRows = MAX_ROWS,
  } = props;
  const [isLong, setLong] = useState(false);
  const { value, error, reload } = useResource(
    id,
    async () => {
      const items = await load();
      setLong(items.length > LONG_LIST);
      return items;
    },
    isLong ? LONG_REFRESH_MS : everyMs,
  );
  const text = address.value.query.find ?? "";
  const words = text.toLowerCase().split(/\s+/);
  const matches = (item: Item): boolean => {
    const own = textOf?.(item).toLowerCase() ?? "";
    return words.every((word) => own.includes(word));
  };
  const found = textOf === undefined || text === "" ? (value ?? []) : (value ?? []).filter(matches);
  const hasFilter = textOf !== undefined && (text !== "" || (value ?? []).length > SHORT_LIST);
  return (
    <>
      <PageHead title={title}>{actions?.(reload)}</PageHead>
      {children}
      {error === undefined ? null : <ErrorBox error={error} onRetry={reload} />}
      {hasFilter ? (
        <search class="filters">
          <input
            type="search"
            aria-label={`Find in ${title}`}
            placeholder={`Find in ${formatNumber(value?.length ?? 0)} rows`}
            value={text}
            onInput={(event) => setQuery({ find: event.currentTarget.value })}
          />
          {found.length > maxRows ? (
            <span class="faint" role="status">
              The first {maxRows} of {formatNumber(found.length)} are shown
            </span>
          ) : null}
        </search>
      ) : null}
      {value !== undefined ? (
        <Table
          caption={title}
          columns={columns(reload)}
          items={found.slice(0, maxRows)}
          keyOf={keyOf}
          empty={
            value.length === 0 ? (
              empty
            ) : (
              <Empty title="Nothing matches">
                <button type="button" class="button plain" onClick={() => setQuery({ find: undefined })}>
                  Show all
                </button>
              </Empty>
            )
          }
        />
      ) : error === undefined ? (
        <Loading />
      ) : null}
      {value === undefined ? null : footer?.(value, reload)}
    </>
  );
}
