// Runs a snippet of JavaScript, so that a model can compute. The snippet has the isolate of this call for itself and no access beyond it.
import { defineTool } from "glovebox/tool";
import * as z from "zod";
import { SnippetConsole } from "./console.ts";
import { showError } from "./error.ts";
import { compileSnippet } from "./snippet.ts";
import { toResult } from "./value.ts";

const MAX_CODE_CHARACTERS = 100_000;

const Line = z.object({ level: z.enum(["debug", "log", "info", "warn", "error"]), text: z.string() });
const Failure = z.object({
  name: z.string().describe("The error's name, e.g. TypeError"),
  message: z.string(),
  line: z.int().positive().optional().describe("Line of the snippet, from 1"),
  column: z.int().positive().optional().describe("Column of that line, from 1"),
});

export default defineTool({
  name: "run-js",
  description:
    "Runs JavaScript and returns the value of its last expression (or of `return`), with what it wrote to the console. " +
    "Use it to compute: arithmetic, dates, text, sorting, statistics, parsing. `input` holds the given JSON; `await` works " +
    "at the top level; the language and the web's globals are there (Intl, URL, TextEncoder, crypto). There is no network, no " +
    "file, no import, and nothing is kept for the next call.",
  inputSchema: z.strictObject({
    code: z
      .string()
      .min(1)
      .max(MAX_CODE_CHARACTERS)
      .describe("The snippet, e.g. `const s = input.xs; s.reduce((a, b) => a + b, 0)`"),
    input: z.unknown().optional().describe("JSON that the snippet finds as `input`"),
  }),
  outputSchema: z.object({
    result: z.unknown().describe("The value as JSON; null where it has none"),
    text: z
      .string()
      .optional()
      .describe("The value as a console shows it, where JSON cannot hold it (a Map, a function, NaN …)"),
    console: z.array(Line).describe("What the snippet wrote, in order"),
    consoleDropped: z
      .int()
      .positive()
      .optional()
      .describe("Lines past the first 500, or past 20,000 characters, are counted only"),
    error: Failure.optional().describe("What it threw, or where its syntax is wrong; then there is no result"),
  }),
  capabilities: { stringToCode: true },
  annotations: { title: "Run JavaScript", readOnlyHint: true, idempotentHint: true, openWorldHint: false },
  async execute({ code, input }) {
    const out = new SnippetConsole();
    try {
      const run = compileSnippet(code);
      const value = toResult(await run(input, out.face));
      return { ...value, ...out.finish() };
    } catch (thrown) {
      return { result: null, ...out.finish(), error: showError(thrown, code) };
    }
  },
});
