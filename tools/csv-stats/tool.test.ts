// csv-stats, run in the sandbox; its figures are checked against plain computations made here.
import { readFile } from "node:fs/promises";
import { type OpenedTool, openTool, undescribed } from "glovebox/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

interface Column {
  readonly type: string;
  readonly name: string;
  readonly count: number;
  readonly missing: number;
  readonly unique: number;
  readonly notes?: readonly string[];
  readonly sum?: number;
  readonly mean?: number;
  readonly stdev?: number | null;
  readonly quantiles?: readonly { readonly p: number; readonly value: number }[];
}

interface CsvStats {
  readonly rowCount: number;
  readonly columnCount: number;
  readonly delimiter: string;
  readonly columns: readonly Column[];
  readonly warnings: readonly string[];
}

let tool: OpenedTool;
beforeAll(async () => {
  tool = await openTool(import.meta.dirname);
});
afterAll(() => tool[Symbol.asyncDispose]());

const stats = (args: object) => tool.output<CsvStats>(args);

test("csv-stats requires its text and nothing else, and describes every field", () => {
  const { inputSchema, outputSchema } = tool.definition;
  expect(inputSchema).toMatchObject({ required: ["csv"] });
  expect([...undescribed(inputSchema), ...undescribed(outputSchema)]).toEqual([]);
});

describe("csv-stats on four years of Seattle's weather (NOAA)", () => {
  const numberColumns = ["precipitation", "temp_max", "temp_min", "wind"];
  let rows: readonly (readonly string[])[];
  let result: CsvStats;

  beforeAll(async () => {
    const csv = await readFile(new URL("example.csv", import.meta.url), "utf8");
    // The file has no quotes, so that a plain split reads it.
    rows = csv
      .trim()
      .split(/\r?\n/)
      .map((line) => line.split(","));
    result = await stats({ csv, quantiles: [0, 0.1, 1 / 3, 0.9, 1] });
  });

  const valuesOf = (name: string) => {
    const index = rows[0]?.indexOf(name) ?? -1;
    return rows.slice(1).map((row) => row[index] ?? "");
  };
  const columnOf = (name: string) => result.columns.find((column) => column.name === name);

  test("finds its shape and types", () => {
    expect(result).toMatchObject({ rowCount: 1461, columnCount: 6, delimiter: ",", warnings: [] });
    expect(result.columns.map(({ name, type }) => [name, type])).toEqual([
      ["date", "date"],
      ...numberColumns.map((name) => [name, "number"]),
      ["weather", "text"],
    ]);
  });

  test.for(numberColumns)("agrees with a plain computation about %s", (name) => {
    const values = valuesOf(name).map(Number);
    const sorted = values.toSorted((a, b) => a - b);
    // Tenths are exact as integers, so that these sums have no rounding error at all.
    const tenths = values.map((value) => Math.round(value * 10));
    const sum = tenths.reduce((total, value) => total + value, 0);
    const squares = tenths.reduce((total, value) => total + value * value, 0);
    const n = values.length;
    const column = columnOf(name);
    expect(column).toMatchObject({ count: n, missing: 0, unique: new Set(values).size });
    expect(column).toMatchObject({ min: sorted.at(0), max: sorted.at(-1), median: sorted[(n - 1) / 2] });
    expect(column?.sum).toBeCloseTo(sum / 10, 9);
    expect(column?.mean).toBeCloseTo(sum / 10 / n, 9);
    expect(column?.stdev).toBeCloseTo(Math.sqrt((squares - (sum * sum) / n) / (n - 1)) / 10, 9);
    const quantiles = column?.quantiles ?? [];
    expect(quantiles.map(({ p }) => p)).toEqual([0, 0.1, 1 / 3, 0.9, 1]);
    for (const { p, value } of quantiles) {
      const below = Math.trunc(p * (n - 1));
      const share = p * (n - 1) - below;
      expect(value).toBeCloseTo((1 - share) * (sorted[below] ?? 0) + share * (sorted[below + 1] ?? 0), 9);
    }
  });

  test("agrees with a plain count about weather and date", () => {
    const counts: Record<string, number> = {};
    for (const value of valuesOf("weather")) counts[value] = (counts[value] ?? 0) + 1;
    const top = Object.entries(counts).toSorted((a, b) => b[1] - a[1]);
    expect(columnOf("weather")).toMatchObject({
      unique: top.length,
      uniqueIsExact: true,
      topValues: top.map(([value, count]) => ({ value, count })),
    });
    const days = valuesOf("date").toSorted();
    const spanDays = (Date.parse(days.at(-1) ?? "") - Date.parse(days[0] ?? "")) / 86_400_000;
    expect(columnOf("date")).toMatchObject({ min: days[0], max: days.at(-1), unique: new Set(days).size, spanDays });
  });
});

interface Reading {
  readonly about: string;
  readonly args: Record<string, unknown>;
  readonly whole?: Partial<CsvStats>;
  /** What is expected of each column, in order. */
  readonly columns: readonly Record<string, unknown>[];
}

const READINGS: readonly Reading[] = [
  {
    about: "quoted delimiters, quotes and line breaks",
    args: { csv: 'name,note\n"Doe, Jane","said ""hi""\nand left"\n"Roe",x\n' },
    whole: { rowCount: 2 },
    columns: [
      {
        name: "name",
        type: "text",
        topValues: [
          { value: "Doe, Jane", count: 1 },
          { value: "Roe", count: 1 },
        ],
      },
      { name: "note", maxLength: 18 },
    ],
  },
  {
    about: "a byte order mark, CRLF and semicolons",
    args: { csv: '\uFEFF"id";"size"\r\n1;2.5\r\n2;3.5\r\n' },
    whole: { delimiter: ";", rowCount: 2 },
    columns: [
      { name: "id", type: "integer", sum: 3 },
      { name: "size", type: "number", mean: 3 },
    ],
  },
  {
    about: "tabs",
    args: { csv: "a\tb\n1\tx, y\n2\tz, z\n" },
    whole: { delimiter: "\t" },
    columns: [{ type: "integer" }, { type: "text", unique: 2 }],
  },
  {
    about: "line ends of an old Mac",
    args: { csv: "a,b\r1,2\r3,4" },
    whole: { rowCount: 2 },
    columns: [{ sum: 4 }, { sum: 6 }],
  },
  {
    about: "decimal commas",
    args: { csv: "n;v\n1;1.234,5\n2;0,5\n", decimalComma: true },
    columns: [{ type: "integer" }, { type: "number", sum: 1235 }],
  },
  {
    about: "thousands separators",
    args: { csv: 'n\n"1,234"\n"5,678,901"\n12\n' },
    columns: [{ type: "integer", max: 5_678_901 }],
  },
  {
    about: "missing values, whatever their case and spaces",
    args: { csv: "a,b\n1,n/a\n, NULL \nNA,x\n3,\n" },
    columns: [
      { type: "integer", count: 2, missing: 2, mean: 2 },
      { type: "text", count: 1, missing: 3 },
    ],
  },
  {
    about: "its own missing values",
    args: { csv: "a\n1\n-999\n3\nNA\n", missingValues: ["-999"] },
    columns: [{ type: "text", count: 3, missing: 1 }],
  },
  {
    about: "identifiers that look like numbers as text",
    args: { csv: "zip,account\n00501,12345678901234567890\n02134,1\n" },
    columns: [{ type: "text", unique: 2 }, { type: "text" }],
  },
  {
    about: "booleans",
    args: { csv: "a,b\nyes,TRUE\nNo,false\nY,true\n" },
    columns: [
      { type: "boolean", trueCount: 2, falseCount: 1 },
      { type: "boolean", trueCount: 2, falseCount: 1 },
    ],
  },
  {
    about: "dates by their only possible order",
    args: { csv: "us,eu,dots\n12/31/2020,31/12/2020,1.2.2020\n01/15/2021,15/01/2021,31.12.2021\n" },
    columns: [
      { type: "date", format: "MM/DD/YYYY", min: "2020-12-31", max: "2021-01-15", spanDays: 15 },
      { type: "date", format: "DD/MM/YYYY", min: "2020-12-31", max: "2021-01-15" },
      { type: "date", format: "DD.MM.YYYY", min: "2020-02-01" },
    ],
  },
  {
    about: "times with and without a zone",
    args: { csv: "t\n2020-01-01T10:00:00Z\n2020-01-01 09:30:00+02:00\n" },
    columns: [{ type: "date", min: "2020-01-01T07:30:00.000Z", max: "2020-01-01T10:00:00.000Z" }],
  },
  {
    about: "days that no calendar has as text",
    args: { csv: "d\n2021-02-29\n2021-02-28\n" },
    columns: [{ type: "text" }],
  },
  {
    about: "repeated and empty column names",
    args: { csv: "a,a,\n1,2,3\n" },
    columns: [{ name: "a" }, { name: "a_2" }, { name: "column_3" }],
  },
  {
    about: "a file without a header",
    args: { csv: "1,x\n2,y\n", header: false },
    whole: { rowCount: 2 },
    columns: [{ name: "column_1", sum: 3 }, { name: "column_2" }],
  },
  {
    about: "a header without rows",
    args: { csv: "a,b\n" },
    whole: { rowCount: 0 },
    columns: [
      { type: "empty", count: 0 },
      { type: "empty", count: 0 },
    ],
  },
  {
    about: "one value, which has no deviation",
    args: { csv: "a\n7\n" },
    columns: [{ count: 1, min: 7, max: 7, mean: 7, median: 7, stdev: null }],
  },
  {
    about: "rows that are too short or too long, with a warning each",
    args: { csv: "a,b\n1\n2,3,4\n\n5,6\n" },
    whole: {
      rowCount: 3,
      warnings: [
        "1 row has fewer than 2 fields; the first ends on line 2",
        "1 row has more than 2 fields; the first ends on line 3",
      ],
    },
    columns: [{ count: 3 }, { count: 2, missing: 1 }],
  },
  {
    about: "the columns asked for only",
    args: { csv: "a,b,c\n1,2,3\n", columns: ["c", "a"] },
    whole: { columnCount: 3 },
    columns: [{ name: "a" }, { name: "c" }],
  },
  {
    about: "no more columns than allowed",
    args: { csv: "a,b,c\n1,2,3\n", maxColumns: 2 },
    whole: {
      columnCount: 3,
      warnings: ["Only the first 2 of 3 columns are reported; raise maxColumns or name the columns you need"],
    },
    columns: [{ name: "a" }, { name: "b" }],
  },
];

test.for(READINGS)("csv-stats reads $about", async ({ args, whole = {}, columns }) => {
  const result = await stats(args);
  expect(result).toMatchObject(whole);
  expect(result.columns).toMatchObject(columns);
  expect(result.columns).toHaveLength(columns.length);
});

test("csv-stats says which value keeps a column from being numbers, and when dates are ambiguous", async () => {
  const rows = Array.from({ length: 20 }, (_, index) => `${index},0${(index % 9) + 1}/05/2020`);
  const { columns } = await stats({ csv: `n,d\n${rows.join("\n")}\nabc,01/01/2021\n` });
  expect(columns[0]).toMatchObject({
    type: "text",
    notes: ['Read as text, though 20 of 21 values are of the form integer; the first that is not is "abc" on line 22'],
  });
  expect(columns[1]).toMatchObject({
    type: "date",
    notes: ["Read as MM/DD/YYYY; every value fits DD/MM/YYYY too"],
  });
});

test("csv-stats describes five megabytes within its time and memory", async () => {
  const count = 80_000;
  const lines = ["id,half,day,key,note"];
  for (let id = 0; id < count; id += 1) {
    lines.push(
      `${id},${id / 2},201${id % 10}-0${(id % 9) + 1}-1${id % 7},k${id % 1000},"note, no. ${id} ""quoted"" text"`,
    );
  }
  const csv = lines.join("\r\n");
  expect(csv.length).toBeGreaterThan(5_000_000);
  const { rowCount, columns } = await stats({ csv });
  expect(rowCount).toBe(count);
  expect(columns).toMatchObject([
    { type: "integer", unique: count, sum: (count * (count - 1)) / 2, median: (count - 1) / 2 },
    { type: "number", unique: count, sum: (count * (count - 1)) / 4, max: (count - 1) / 2 },
    { type: "date", min: "2010-01-10", unique: 630 },
    { type: "text", unique: 1000, topValues: Array.from({ length: 5 }, () => ({ count: count / 1000 })) },
    { type: "text", unique: count, uniqueIsExact: true },
  ]);
});

test.for<[string, unknown, RegExp]>([
  ["a quote that never closes", { csv: 'a,b\n1,"x\n2,3' }, /^TOOL_FAILED: .*opens at line 2, column 3 is never closed/],
  [
    "text after a closing quote",
    { csv: 'a,b\r\n"1\r\n2","x"y\r\n' },
    /^TOOL_FAILED: .*line 3, column 4 is closed before/,
  ],
  ["blank text", { csv: " \r\n \n" }, /^TOOL_FAILED: .*text is empty/],
  ["a byte order mark and no more", { csv: "\uFEFF" }, /^TOOL_FAILED: .*text is empty/],
  ["a column that is not there", { csv: "a,b\n1,2", columns: ["c"] }, /^TOOL_FAILED: .*no column "c".*"a", "b"/],
  ["more columns than any table has", { csv: ",".repeat(10_000) }, /^TOOL_FAILED: .*at most 10000 columns, got 10001/],
  ["no text", {}, /^PARAM_INVALID.*csv/],
  ["empty text", { csv: "" }, /^PARAM_INVALID.*csv/],
  ["a number", { csv: 5 }, /^PARAM_INVALID.*csv/],
  ["a list", [1], /^PARAM_INVALID/],
  ["a delimiter of two characters", { csv: "a", delimiter: "||" }, /^PARAM_INVALID.*delimiter/],
  ["a quote as the delimiter", { csv: "a", delimiter: '"' }, /^PARAM_INVALID.*delimiter/],
  ["a quantile above 1", { csv: "a", quantiles: [1.5] }, /^PARAM_INVALID.*quantiles/],
  ["an unknown option", { csv: "a", seperator: ";" }, /^PARAM_INVALID.*seperator/],
])("csv-stats rejects %s", async ([, args, expected]) => {
  expect(await tool.failure(args)).toMatch(expected);
});
