// The whole analysis: header, first pass (types), second pass (values). Two passes, because one would have to keep every
// cell until the last row settles its column's type, and an isolate has little memory.
import { ColumnInference, type InferredColumn } from "./infer-columns.ts";
import { type CsvText, readRows, toCsvText } from "./read-csv.ts";
import type { ColumnStats, CsvStats, CsvStatsInput } from "./schemas.ts";
import { BooleanCollector, DateCollector, NumberCollector, TextCollector } from "./summarize-columns.ts";
import { createValueKinds } from "./value-kinds.ts";

/** Distinct text values kept over all columns: about 60 MB at worst. */
const MAX_DISTINCT = 500_000;
/** Largest number of columns. More usually mean a wrong delimiter, or swapped rows and columns. */
const MAX_FILE_COLUMNS = 10_000;

interface FirstPass {
  readonly columns: readonly InferredColumn[];
  readonly rowCount: number;
  readonly columnCount: number;
  readonly delimiter: string;
  readonly warnings: string[];
}

/** @throws {Error} when the text is empty, a quote is not closed, or a column asked for does not exist */
export function analyzeCsv(input: CsvStatsInput): CsvStats {
  const csv = toCsvText(input.csv, input.delimiter);
  const { columns, ...whole } = inferColumns(csv, input);
  return { ...whole, columns: summarizeColumns({ ...csv, delimiter: whole.delimiter }, columns, input) };
}

function inferColumns(csv: CsvText, input: CsvStatsInput): FirstPass {
  const kinds = createValueKinds(input.decimalComma);
  const isMissing = createMissingTest(input.missingValues);
  const lengths = new RowLengths();
  const warnings: string[] = [];
  let columnCount = 0;
  let columns: ColumnInference[] | undefined;
  let rowCount = 0;
  const delimiter = readRows(csv, (row) => {
    if (columns === undefined) {
      columnCount = row.fields.length;
      const chosen = chooseColumns(nameColumns(row.fields, input.header), input, warnings);
      columns = chosen.map(({ name, index }) => new ColumnInference(name, index, kinds, isMissing));
      if (input.header) return;
    }
    rowCount += 1;
    lengths.add(row.fields.length, columnCount, row.line);
    for (const column of columns) column.add(row);
  });
  return {
    columns: (columns ?? []).map((column) => column.finish()),
    rowCount,
    columnCount,
    delimiter,
    warnings: [...warnings, ...lengths.warnings(columnCount)],
  };
}

function summarizeColumns(csv: CsvText, columns: readonly InferredColumn[], input: CsvStatsInput): ColumnStats[] {
  const isMissing = createMissingTest(input.missingValues);
  const textColumns = columns.filter(({ type }) => type === "text").length;
  const maxDistinct = Math.floor(MAX_DISTINCT / Math.max(1, textColumns));
  const collectors = columns.map((column) => createCollector(column, input, maxDistinct));
  let isHeader = input.header;
  readRows(csv, ({ fields }) => {
    if (isHeader) {
      isHeader = false;
      return;
    }
    for (const { index, add } of collectors) {
      const value = fields[index]?.trim() ?? "";
      if (!isMissing(value)) add(value);
    }
  });
  return collectors.map(({ finish }) => finish());
}

interface Collector {
  readonly index: number;
  readonly add: (value: string) => void;
  readonly finish: () => ColumnStats;
}

function createCollector(column: InferredColumn, input: CsvStatsInput, maxDistinct: number): Collector {
  const { name, index, count, missing, notes, kind, type } = column;
  const common = { name, position: index + 1, count, missing, ...(notes.length === 0 ? {} : { notes: [...notes] }) };
  if (type === "text") {
    const values = new TextCollector(maxDistinct, input.topValues);
    return { index, add: (value) => values.add(value), finish: () => ({ type, ...common, ...values.finish() }) };
  }
  if (type === "empty" || kind === undefined) {
    return { index, add: () => undefined, finish: () => ({ type: "empty", ...common, unique: 0 }) };
  }
  if (type === "date") {
    const values = new DateCollector(column, kind);
    return { index, add: (value) => values.add(value), finish: () => ({ type, ...common, ...values.finish() }) };
  }
  if (type === "boolean") {
    const values = new BooleanCollector(kind);
    return { index, add: (value) => values.add(value), finish: () => ({ type, ...common, ...values.finish() }) };
  }
  const values = new NumberCollector(column, kind, input.quantiles);
  return { index, add: (value) => values.add(value), finish: () => ({ type, ...common, ...values.finish() }) };
}

function createMissingTest(missingValues: readonly string[]): (value: string) => boolean {
  const missing = new Set(missingValues.map((value) => value.trim().toLowerCase()));
  const longest = Math.max(0, ...missingValues.map((value) => value.length));
  return (value) => value === "" || (value.length <= longest && missing.has(value.toLowerCase()));
}

/** A repeated name gets a number; the next one to try is kept, since a file may repeat one name thousands of times. */
function nameColumns(fields: readonly string[], header: boolean): readonly string[] {
  if (fields.length > MAX_FILE_COLUMNS) {
    throw new Error(`Expected at most ${MAX_FILE_COLUMNS} columns, got ${fields.length}; is the delimiter right?`);
  }
  const taken = new Set<string>();
  const copies = new Map<string, number>();
  return fields.map((field, index) => {
    const wanted = (header && field.trim()) || `column_${index + 1}`;
    let name = wanted;
    let copy = copies.get(wanted) ?? 2;
    for (; taken.has(name); copy += 1) name = `${wanted}_${copy}`;
    copies.set(wanted, copy);
    taken.add(name);
    return name;
  });
}

function chooseColumns(names: readonly string[], input: CsvStatsInput, warnings: string[]) {
  const all = names.map((name, index) => ({ name, index }));
  const unknown = input.columns?.find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new Error(`There is no column ${JSON.stringify(unknown)}; the columns are: ${listNames(names)}`);
  }
  const wanted = input.columns === undefined ? all : all.filter(({ name }) => input.columns?.includes(name));
  if (wanted.length > input.maxColumns) {
    warnings.push(
      `Only the first ${input.maxColumns} of ${wanted.length} columns are reported; raise maxColumns or name the columns you need`,
    );
  }
  return wanted.slice(0, input.maxColumns);
}

function listNames(names: readonly string[]): string {
  const shown = names.slice(0, 30).map((name) => JSON.stringify(name));
  return names.length > shown.length ? `${shown.join(", ")} and ${names.length - shown.length} more` : shown.join(", ");
}

/** Counts the rows whose number of fields is not the header's. */
class RowLengths {
  readonly #short = { rows: 0, firstLine: 0, word: "fewer" };
  readonly #long = { rows: 0, firstLine: 0, word: "more" };

  add(length: number, expected: number, line: number): void {
    if (length === expected) return;
    const tally = length < expected ? this.#short : this.#long;
    if (tally.rows === 0) tally.firstLine = line;
    tally.rows += 1;
  }

  warnings(expected: number): readonly string[] {
    return [this.#short, this.#long]
      .filter(({ rows }) => rows > 0)
      .map(({ rows, firstLine, word }) => {
        const subject = rows === 1 ? "1 row has" : `${rows} rows have`;
        return `${subject} ${word} than ${expected} fields; the first ends on line ${firstLine}`;
      });
  }
}
