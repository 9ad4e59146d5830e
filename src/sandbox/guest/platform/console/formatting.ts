// Formatting for console as in Node: values by util.inspect, printf-style directives, and tables.
import { formatWithOptions, inspect } from "./inspect.ts";

export function format(args: readonly unknown[]): string {
  return formatWithOptions({}, ...args);
}

export function dir(value: unknown, options: unknown): string {
  return inspect(value, { customInspect: false, ...(options as object | undefined) });
}

/** Formats a table cell as one line. Large objects are abbreviated. */
function toCell(value: unknown): string {
  const isLarge = typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 2;
  return inspect(value, { depth: isLarge ? -1 : 0, maxArrayLength: 3, breakLength: Number.POSITIVE_INFINITY });
}

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{1f300}-\u{1faff}]|[\u{20000}-\u{3fffd}]/u;
/** Characters without width on a terminal: combining marks and invisible characters. */
const NARROW = /[\p{Mn}\p{Me}\p{Cf}\p{Cc}]/u;

/** Returns the width in terminal columns. */
function widthOf(text: string): number {
  let width = 0;
  for (const character of text.normalize("NFC")) {
    if (WIDE.test(character)) width += 2;
    else if (!NARROW.test(character)) width += 1;
  }
  return width;
}

function draw(head: readonly string[], columns: readonly (readonly string[])[]): string {
  const rows = columns.reduce((longest, column) => Math.max(longest, column.length), 0);
  const widths = columns.map((column, index) => {
    const texts = [head[index], ...column].map((text) => widthOf(text ?? ""));
    return texts.reduce((widest, width) => Math.max(widest, width), 0) + 2;
  });
  const line = (left: string, middle: string, right: string): string =>
    left + widths.map((width) => "─".repeat(width)).join(middle) + right;
  const row = (cells: readonly string[]): string =>
    `│${cells.map((cell, index) => ` ${cell}${" ".repeat((widths[index] ?? 0) - widthOf(cell) - 1)}`).join("│")}│`;
  const body = Array.from({ length: rows }, (_, at) => row(columns.map((column) => column[at] ?? "")));
  return [line("┌", "┬", "┐"), row(head), line("├", "┼", "┤"), ...body, line("└", "┴", "┘")].join("\n");
}

const ITERATION = "(iteration index)";

/** Formats maps, sets and their iterators, which have no keys for columns. */
function iterationTable(data: object): string | undefined {
  const tag = Object.prototype.toString.call(data);
  const isIterable = Symbol.iterator in data;
  if (!isIterable || !/^\[object (?:Map|Set)(?: Iterator)?\]$/.test(tag)) return undefined;
  const items = [...(data as Iterable<unknown>)];
  const index = items.map((_, at) => String(at));
  if (tag.startsWith("[object Map")) {
    if (items.every((item) => Array.isArray(item))) {
      const entries = items as unknown as readonly (readonly [unknown, unknown])[];
      const columns = [index, entries.map(([key]) => toCell(key)), entries.map(([, value]) => toCell(value))];
      return draw([ITERATION, "Key", "Values"], columns);
    }
  }
  return draw([ITERATION, "Values"], [index, items.map(toCell)]);
}

/** Returns undefined for data that is not tabular, which is logged as it is. */
export function table(data: unknown, properties: unknown): string | undefined {
  if (properties !== undefined && !Array.isArray(properties)) {
    throw new TypeError("console.table expected a list of columns");
  }
  if (typeof data !== "object" || data === null) return undefined;
  const iterated = iterationTable(data);
  if (iterated !== undefined) return iterated;
  const names = new Map<string, string[]>();
  for (const name of (properties ?? []) as unknown[]) names.set(String(name), []);
  const values: string[] = [];
  let hasValues = false;
  const index = Object.keys(data);
  for (const [at, key] of index.entries()) {
    const item = (data as { readonly [key: string]: unknown })[key];
    const isPlain = item === null || (typeof item !== "function" && typeof item !== "object");
    if (isPlain) {
      hasValues = true;
      values[at] = toCell(item);
      continue;
    }
    const keys = (properties as unknown[] | undefined)?.map(String) ?? Object.keys(item);
    for (const name of keys) {
      const column = names.get(name) ?? [];
      names.set(name, column);
      if (Object.hasOwn(item, name)) column[at] = toCell((item as { readonly [key: string]: unknown })[name]);
    }
  }
  const head = ["(index)", ...names.keys()];
  const columns = [index, ...names.values()];
  if (hasValues) {
    head.push("Values");
    columns.push(values);
  }
  return draw(head, columns);
}
