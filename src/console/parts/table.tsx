// A table for lists of moderate length, with an empty state.
import type { ComponentChildren, JSX } from "preact";

export interface Column<Item> {
  readonly name: string;
  readonly isNumber?: boolean;
  readonly cell: (item: Item) => ComponentChildren;
}

interface TableProps<Item> {
  readonly caption: string;
  readonly columns: readonly Column<Item>[];
  readonly items: readonly Item[];
  readonly keyOf: (item: Item) => string;
  readonly empty: JSX.Element;
}

export function Table<Item>({ caption, columns, items, keyOf, empty }: TableProps<Item>): JSX.Element {
  if (items.length === 0) return empty;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table scrolls by keyboard
    <section class="table-box" tabIndex={0} aria-label={caption}>
      <table>
        <caption class="hidden">{caption}</caption>
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
