// Markdown in, sanitized HTML out. The conversion is convert.ts; the table in allowed-html.ts lists what is allowed.
import { defineTool } from "glovebox/tool";
import { convertMarkdown } from "./convert.ts";
import { InputSchema, OutputSchema } from "./schemas.ts";

export default defineTool({
  name: "markdown-to-html",
  description:
    "Converts Markdown (CommonMark and GitHub's tables, task lists, footnotes, strikethrough) to HTML that is safe to " +
    "show: scripts, event handlers, styles, frames, forms and dangerous links are removed, and the answer says what was. " +
    "Gives a fragment or a whole page, and the list of headings.",
  inputSchema: InputSchema,
  outputSchema: OutputSchema,
  annotations: { title: "Markdown to HTML", readOnlyHint: true, idempotentHint: true, openWorldHint: false },
  execute: (input) => convertMarkdown(input),
});
