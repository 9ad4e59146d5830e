// Prints lists: as a table in a terminal, as JSON in a pipe.
import { toVisibleLine } from "../../host/util/visible-text.ts";
import type { Io } from "../terminal/process-io.ts";
import type { Arguments } from "../usage.ts";

/** Longest text of a cell. */
const MAX_CELL = 60;

export const isJsonWanted = ({ values }: Arguments): boolean => values.json === true || process.stdout.isTTY !== true;

const cellOf = (value: unknown): string => {
  const text = toVisibleLine(value === null || value === undefined ? "" : String(value));
  return text.length > MAX_CELL ? `${text.slice(0, MAX_CELL - 1)}…` : text;
};

/** Formats a time as `2026-11-24 13:05:09` in UTC. */
export const timeOf = (ms: number | null): string =>
  ms === null ? "" : new Date(ms).toISOString().slice(0, 19).replace("T", " ");

/**
 * Prints items.
 * @param columns name and cell of each column of the table
 */
export function printItems<Item>(
  given: Arguments,
  io: Pick<Io, "stdout">,
  items: readonly Item[],
  columns: { readonly [name: string]: (item: Item) => unknown },
): void {
  if (isJsonWanted(given)) {
    io.stdout.print(`${JSON.stringify(items, null, 2)}\n`);
    return;
  }
  const names = Object.keys(columns);
  const rows = [
    names.map((name) => name.toUpperCase()),
    ...items.map((item) => names.map((name) => cellOf(columns[name]?.(item)))),
  ];
  const widths = names.map((_name, index) => Math.max(...rows.map((row) => row[index]?.length ?? 0)));
  for (const row of rows) {
    io.stdout.print(
      `${row
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join("  ")
        .trimEnd()}\n`,
    );
  }
}

/** Returns the first items of a list on the server. */
export async function take<Item>(items: AsyncIterable<Item>, max: number): Promise<readonly Item[]> {
  const taken: Item[] = [];
  for await (const item of items) {
    if (taken.push(item) >= max) break;
  }
  return taken;
}
