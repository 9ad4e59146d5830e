// Reads CSV text row by row, with errors that say where. Knows nothing of types or statistics.
import { parse } from "papaparse";

/** CSV text without byte order mark, its line ends all `\n`, and the delimiter that separates its fields. */
export interface CsvText {
  readonly text: string;
  /** Empty: detected by Papa Parse. */
  readonly delimiter: string;
}

export interface CsvRow {
  readonly fields: readonly string[];
  /** Line on which the row ends, from 1: a quoted field may hold line breaks. */
  readonly line: number;
}

export function toCsvText(csv: string, delimiter = ""): CsvText {
  const text = csv.replace(/^\uFEFF/, "").replace(/\r\n?/g, "\n");
  if (text.trim() === "") throw new Error("The CSV text is empty: expected at least a header row");
  return { text, delimiter };
}

/**
 * Calls `onRow` for each row that is not blank, and returns the delimiter.
 * @throws {Error} at the first quote that is never closed, or that is followed by more text in its field
 */
export function readRows({ text, delimiter }: CsvText, onRow: (row: CsvRow) => void): string {
  let used = delimiter;
  let offset = 0;
  let line = 1;
  let failure: Error | undefined;
  parse(text, {
    delimiter,
    newline: "\n",
    skipEmptyLines: true,
    step(result, parser) {
      const quote = result.errors.find((error) => error.type === "Quotes");
      if (quote !== undefined) {
        failure = toQuoteError(text, quote.code, quote.index ?? offset);
        parser.abort();
        return;
      }
      used = result.meta.delimiter;
      const end = Math.min(result.meta.cursor, text.length);
      for (; offset < end; offset += 1) if (text.charCodeAt(offset) === 10) line += 1;
      if (result.data.length === 1 && result.data[0]?.trim() === "") return;
      const endsWithLineBreak = text.charCodeAt(end - 1) === 10;
      onRow({ fields: result.data, line: endsWithLineBreak ? line - 1 : line });
    },
  });
  if (failure !== undefined) throw failure;
  return used;
}

function toQuoteError(text: string, code: string, afterQuote: number): Error {
  const before = text.slice(0, Math.max(0, afterQuote - 1));
  const line = before.split("\n").length;
  const column = before.length - before.lastIndexOf("\n");
  const fault =
    code === "MissingQuotes"
      ? "is never closed"
      : "is closed before the field ends; write a quote inside a quoted field twice";
  return new Error(`The quoted field that opens at line ${line}, column ${column} ${fault}`);
}
