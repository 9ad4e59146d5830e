// The definition of the tool run_code, as models see it.
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import type { CodeLanguage } from "./options.ts";

export const RUN_CODE = "run_code";
const MAX_CODE = 200_000;
const SEARCH_HINT = "search_tools";
const WAIT_HINT =
  'The code can wait for days: `await ctx.waitFor({ approval: "Question?" })` returns { approved, reason }, `{ event: "name" }` its value, and `{ durationMs }` ends by itself. `await ctx.elicit({ message, requestedSchema })` returns { action, content } of a form.';

const LANGUAGE_HINTS: { readonly [Language in CodeLanguage]: string } = {
  typescript: "TypeScript, which is type-checked before anything runs",
  javascript: "JavaScript",
  python: "Python (await tools.NAME(field=…))",
};

/** Returns the definition of run_code for these languages; the first is the default one. */
export function runDefinition(
  languages: readonly CodeLanguage[],
  { isChecked, isDurable }: { readonly isChecked: boolean; readonly isDurable: boolean },
): ToolDefinition {
  const shown = languages.map((language) =>
    language === "typescript" && !isChecked ? "TypeScript" : LANGUAGE_HINTS[language],
  );
  const [first = "typescript"] = languages;
  return {
    name: RUN_CODE,
    description: [
      `Runs code that calls tools: \`await tools.NAME(input)\`, as ${SEARCH_HINT} shows them. Languages: ${shown.join("; ")}.`,
      "Write the body of an async function: `await` and `return` work at the top level; without `return`, the last expression is the value. This holds for Python too.",
      "Do the whole task in one run where you can: loop, filter, join and compute in code, use Promise.all for independent calls, and return only what you need.",
      "Large data: `await result.save(name, value)` keeps it for later runs, and `await result.load(name)` reads it.",
      ...(isDurable ? [WAIT_HINT] : []),
      "There are no imports, no files and no network except through the tools. console.log lines come back with the value.",
    ].join(" "),
    inputSchema: {
      type: "object",
      properties: {
        code: { type: "string", minLength: 1, maxLength: MAX_CODE, description: "The code" },
        language: { enum: [...languages], description: `Language of the code (default: ${first})` },
        input: { description: "JSON value that the code reads as `input`" },
      },
      required: ["code"],
      additionalProperties: false,
    },
    annotations: { title: "Run code", readOnlyHint: false, destructiveHint: true, openWorldHint: true },
  };
}
