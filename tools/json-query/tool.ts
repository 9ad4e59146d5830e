// Queries JSON with JSONata or JMESPath. Each language has its own file in this folder.
import { defineTool } from "glovebox/tool";
import * as z from "zod";
import { queryJmespath } from "./jmespath.ts";
import { queryJsonata } from "./jsonata.ts";

const MAX_QUERY_CHARACTERS = 10_000;

const InputSchema = z
  .strictObject({
    query: z
      .string()
      .trim()
      .min(1)
      .max(MAX_QUERY_CHARACTERS)
      .describe(
        "The expression. JSONata, e.g. $sum(orders[status='paid'].total); JMESPath, e.g. orders[?status=='paid'].total | sum(@)",
      ),
    language: z
      .enum(["jsonata", "jmespath"])
      .default("jsonata")
      .describe("Language of the query: jsonata can compute, group and build objects; jmespath selects and projects"),
    data: z.unknown().optional().describe("The JSON value to query; give this or json"),
    json: z
      .string()
      .min(1)
      .optional()
      .describe("The JSON to query as text, e.g. the body of a response; give this or data"),
    variables: z
      .record(
        z.string().regex(/^[A-Za-z_]\w*$/, "Expected letters, digits and _, not starting with a digit"),
        z.unknown(),
      )
      .optional()
      .describe(
        'Values that a JSONata query may use by name: {"min": 5} is $min there. Safer than pasting them into the query',
      ),
  })
  .refine(({ data, json }) => (data === undefined) !== (json === undefined), {
    error: "Expected exactly one of data and json",
    path: ["data"],
  })
  .refine(({ language, variables }) => language === "jsonata" || variables === undefined, {
    error: "Variables are for JSONata only",
    path: ["variables"],
  });

const OutputSchema = z.object({
  found: z.boolean().describe("Whether the query matched anything; if not, result is null"),
  result: z.unknown().describe("What the query gave, as JSON"),
  type: z.enum(["array", "boolean", "null", "number", "object", "string"]).describe("JSON type of the result"),
  count: z.int().nonnegative().optional().describe("Items of the result, if it is an array"),
});

export default defineTool({
  name: "json-query",
  description:
    "Runs a JSONata or JMESPath expression over JSON and returns the result: filter, pick, reshape, group, sort, count " +
    "or add up without writing code. Use it to take the few facts you need out of a large JSON document.",
  inputSchema: InputSchema,
  outputSchema: OutputSchema,
  annotations: { title: "JSON query", readOnlyHint: true, idempotentHint: true, openWorldHint: false },
  async execute({ query, language, data, json, variables }) {
    const value = json === undefined ? data : parseJson(json);
    const found = language === "jsonata" ? await queryJsonata(query, value, variables) : queryJmespath(query, value);
    return describeResult(found);
  },
});

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch (error) {
    throw new Error(`The text in json is not JSON: ${error instanceof Error ? error.message : "unknown error"}`);
  }
}

/** @param found JSON, or undefined when nothing matched */
function describeResult(found: unknown): z.output<typeof OutputSchema> {
  if (found === undefined || found === null) return { found: found === null, result: null, type: "null" };
  if (Array.isArray(found)) return { found: true, result: found, type: "array", count: found.length };
  return { found: true, result: found, type: typeof found as "boolean" | "number" | "object" | "string" };
}
