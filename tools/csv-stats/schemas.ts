// Input and output schemas of csv-stats, with the descriptions that its callers see.
import * as z from "zod";

const DEFAULT_MISSING = ["", "NA", "N/A", "#N/A", "NaN", "null", "None", "nil", "-", "--", "?"];

export const InputSchema = z.strictObject({
  csv: z.string().min(1).describe("The CSV text itself, header row first (not a file name or URL)"),
  delimiter: z
    .string()
    .length(1)
    .refine((mark) => !/["\r\n\uFEFF]/.test(mark), "Expected one character that is not a quote or a line break")
    .optional()
    .describe("The one character between fields, e.g. ';' or a tab; detected when left out"),
  header: z
    .boolean()
    .default(true)
    .describe("Whether the first row holds column names; if not they are column_1, column_2 …"),
  decimalComma: z
    .boolean()
    .default(false)
    .describe("Read 1.234,56 as a number, as in much of Europe, instead of 1,234.56"),
  missingValues: z
    .array(z.string().max(100))
    .max(100)
    .default(DEFAULT_MISSING)
    .describe("Values that mean 'no value', whatever their case; fields that are empty or blank always do"),
  columns: z
    .array(z.string())
    .min(1)
    .max(500)
    .optional()
    .describe("Names of the only columns to report; all when left out"),
  quantiles: z
    .array(z.number().min(0).max(1))
    .max(50)
    .default([0.05, 0.25, 0.5, 0.75, 0.95])
    .describe("Quantiles of number columns to report, each from 0 to 1"),
  topValues: z.int().min(0).max(100).default(5).describe("How many of a text column's most frequent values to report"),
  maxColumns: z.int().min(1).max(500).default(100).describe("Report at most this many columns, counted from the left"),
});

const common = {
  name: z.string().describe("Column name; a repeated name gets a number, an empty one its position"),
  position: z.int().positive().describe("Position in the file, from 1"),
  count: z.int().nonnegative().describe("Rows that have a value"),
  missing: z.int().nonnegative().describe("Rows that have none"),
  unique: z.int().nonnegative().describe("Different values"),
  notes: z.array(z.string()).optional().describe("What is doubtful about the column's type"),
};

const numbers = {
  min: z.number().describe("Smallest value"),
  max: z.number().describe("Largest value"),
  sum: z.number().describe("Sum of the values"),
  mean: z.number().describe("Arithmetic mean"),
  median: z.number().describe("Middle value, or the mean of the two middle ones"),
  stdev: z.number().nullable().describe("Sample standard deviation (n - 1); null for a single value"),
  quantiles: z
    .array(
      z.object({
        p: z.number().describe("The share of values below, from 0 to 1"),
        value: z.number().describe("The quantile"),
      }),
    )
    .describe("Quantiles asked for, interpolated linearly between the closest ranks"),
};

const ColumnSchema = z.discriminatedUnion("type", [
  z.object({ type: z.literal("integer").describe("Type of the column"), ...common, ...numbers }),
  z.object({ type: z.literal("number").describe("Type of the column"), ...common, ...numbers }),
  z.object({
    type: z.literal("boolean").describe("Type of the column"),
    ...common,
    trueCount: z.int().nonnegative().describe("Values that mean true"),
    falseCount: z.int().nonnegative().describe("Values that mean false"),
  }),
  z.object({
    type: z.literal("date").describe("Type of the column"),
    ...common,
    format: z.string().describe("How the dates are written, e.g. DD/MM/YYYY"),
    min: z.string().describe("Earliest, as ISO 8601"),
    max: z.string().describe("Latest, as ISO 8601"),
    median: z.string().describe("The middle one, the earlier of two, as ISO 8601"),
    spanDays: z.number().describe("Days from the earliest to the latest"),
  }),
  z.object({
    type: z.literal("text").describe("Type of the column"),
    ...common,
    uniqueIsExact: z.boolean().describe("False when there were too many different values to tell them all apart"),
    minLength: z.int().nonnegative().describe("Characters of the shortest value"),
    maxLength: z.int().nonnegative().describe("Characters of the longest value"),
    meanLength: z.number().describe("Mean number of characters"),
    topValues: z
      .array(
        z.object({
          value: z.string().describe("The value; a very long one is cut"),
          count: z.int().describe("Rows that have it"),
        }),
      )
      .describe("Most frequent values, most frequent first"),
  }),
  z.object({ type: z.literal("empty").describe("Type of the column"), ...common }),
]);

export const OutputSchema = z.object({
  rowCount: z.int().nonnegative().describe("Rows of data: without the header and blank lines"),
  columnCount: z.int().positive().describe("Columns of the file, reported or not"),
  delimiter: z.string().describe("The delimiter used"),
  columns: z.array(ColumnSchema).describe("One entry a column, in the order of the file"),
  warnings: z.array(z.string()).describe("What is wrong with the file as a whole, e.g. rows with too few fields"),
});

export type CsvStatsInput = z.output<typeof InputSchema>;
export type CsvStats = z.output<typeof OutputSchema>;
export type ColumnStats = z.output<typeof ColumnSchema>;
