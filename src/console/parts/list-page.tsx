// The frame of a page that shows one list of the API: heading, loading, error and table.
import type { ComponentChildren, JSX } from "preact";
import { useResource } from "../state/resource.ts";
import { ErrorBox, Loading, PageHead } from "./controls.tsx";
import { type Column, Table } from "./table.tsx";

interface ListPageProps<Item> {
  readonly title: string;
  /** Names the data: the page loads again when it changes. */
  readonly id: string;
  readonly load: () => Promise<readonly Item[]>;
  readonly columns: (reload: () => void) => readonly Column<Item>[];
  readonly keyOf: (item: Item) => string;
  readonly empty: JSX.Element;
  readonly actions?: (reload: () => void) => ComponentChildren;
  readonly everyMs?: number;
  readonly children?: ComponentChildren;
}

const REFRESH_MS = 5_000;

export function ListPage<Item>(props: ListPageProps<Item>): JSX.Element {
  const { title, id, load, columns, keyOf, empty, actions, everyMs = REFRESH_MS, children } = props;
  const { value, error, reload } = useResource(id, load, everyMs);
  return (
    <>
      <PageHead title={title}>{actions?.(reload)}</PageHead>
      {children}
      {error === undefined ? null : <ErrorBox error={error} onRetry={reload} />}
      {value !== undefined ? (
        <Table caption={title} columns={columns(reload)} items={value} keyOf={keyOf} empty={empty} />
      ) : error === undefined ? (
        <Loading />
      ) : null}
    </>
  );
}
