// A table for lists of moderate length, with an empty state.
import type { ComponentChildren, JSX } from "preact";

export interface Column<Item> {
  readonly name: string;
  readonly isNumber?: boolean;
  readonly cell: (item: Item) => ComponentChildren;
}

interface TableProps<Item> {
  readonly caption: string;
  /** Whether the caption is shown. Default: only to screen readers, because a heading above the table says the same. */
  readonly isCaptionShown?: boolean;
  readonly columns: readonly Column<Item>[];
  readonly items: readonly Item[];
  readonly keyOf: (item: Item) => string;
  /** What is shown instead of a table without rows. Default: nothing */
  readonly empty?: JSX.Element;
}

export function Table<Item>({
  caption,
  isCaptionShown = false,
  columns,
  items,
  keyOf,
  empty,
}: TableProps<Item>): JSX.Element | null {
  if (items.length === 0) return empty ?? null;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table scrolls by keyboard
    <section class="table-box" tabIndex={0} aria-label={caption}>
      <table>
        <caption class={isCaptionShown ? "" : "hidden"}>{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ name, isNumber }) => (
              <th key={name} scope="col" class={isNumber === true ? "number" : ""}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map((item) => (
            <tr key={keyOf(item)}>
              {columns.map(({ name, isNumber, cell }) => (
                <td key={name} class={isNumber === true ? "number" : ""}>
                  {cell(item)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
