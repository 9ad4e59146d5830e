// CSV text in, statistics per column out. Reading, type inference and statistics are separate files in this folder.
import { defineTool } from "glovebox/tool";
import { analyzeCsv } from "./analyze.ts";
import { InputSchema, OutputSchema } from "./schemas.ts";

export default defineTool({
  name: "csv-stats",
  description:
    "Describes a CSV text column by column. Infers each column's type (integer, number, boolean, date, text) and " +
    "reports how many values are present, missing and unique; for numbers min, max, sum, mean, median, quantiles and " +
    "standard deviation; for dates their range; for text lengths and the most frequent values. Detects the delimiter; " +
    "handles quotes, byte order marks and any line ends. Use it to understand a table before querying or charting it.",
  inputSchema: InputSchema,
  outputSchema: OutputSchema,
  annotations: { title: "CSV statistics", readOnlyHint: true, idempotentHint: true, openWorldHint: false },
  execute: (input) => analyzeCsv(input),
});
