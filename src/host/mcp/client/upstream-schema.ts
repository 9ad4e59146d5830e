// Reads one tool as an upstream server describes it, which may be anything. Words are data for a model: what is invisible in them is
// removed. Schemas are checked as any untrusted schema is, within narrower bounds; one with invisible names or values is rejected.
import * as z from "zod";
import type { JsonSchema, ToolAnnotations } from "../../../sandbox/contract/definition.ts";
import { toToolError } from "../../../sandbox/contract/errors.ts";
import { compileSchema } from "../../json-schema/compile-schema.ts";
import { hasAtMost } from "./reading/json-size.ts";
import { toVisibleSchema } from "./text/visible-schema.ts";
import { toVisible } from "./text/visible-text.ts";

/** Under the server's own name of it. */
export interface UpstreamTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema?: JsonSchema | undefined;
  readonly annotations?: ToolAnnotations | undefined;
}

/**
 * Of one schema. Large ones in use come to 60 KiB; within these bounds none holds up the host for more than some 50 ms while it is made
 * ready, and a server lists a thousand.
 */
const MAX_SCHEMA_UNITS = 128 * 1024;
const MAX_SCHEMA_VALUES = 3_000;

const SchemaSchema = z.custom<JsonSchema>(
  (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  "Expected an object",
);
const UpstreamToolSchema = z.object({
  name: z.string().min(1).max(256),
  title: z.string().max(256).optional().catch(undefined),
  description: z.string().max(16_384).default(""),
  inputSchema: SchemaSchema,
  outputSchema: SchemaSchema.optional(),
  annotations: z
    .object({
      title: z.string().max(256).optional(),
      readOnlyHint: z.boolean().optional(),
      destructiveHint: z.boolean().optional(),
      idempotentHint: z.boolean().optional(),
      openWorldHint: z.boolean().optional(),
    })
    .optional()
    .catch(undefined),
  execution: z.object({ taskSupport: z.string().optional() }).optional().catch(undefined),
});

/** Members of a schema that refer to another one. */
const REFERENCES: ReadonlySet<string> = new Set(["$ref", "$dynamicRef", "$recursiveRef"]);

/** @throws {RangeError} for a schema past our bounds, or that refers to anything outside itself */
function toSchemaText(schema: JsonSchema, subject: string): string {
  if (!hasAtMost(schema, MAX_SCHEMA_VALUES)) {
    throw new RangeError(`${subject}: expected at most ${MAX_SCHEMA_VALUES} values`);
  }
  const ids = new Set<string>();
  const references: string[] = [];
  const text = JSON.stringify(schema, (key, value: unknown) => {
    if (typeof value !== "string") return value;
    if (key === "$id" || key === "id") ids.add(value.replace(/#$/, ""));
    else if (REFERENCES.has(key) && !value.startsWith("#")) references.push(value);
    return value;
  });
  if (text.length > MAX_SCHEMA_UNITS)
    throw new RangeError(`${subject}: expected at most ${MAX_SCHEMA_UNITS} characters`);
  // Also where no value ever leads to one: whoever is shown the schema may follow it.
  const outside = references.find((reference) => !ids.has(reference.replace(/#.*$/s, "")));
  if (outside === undefined) return text;
  const got = JSON.stringify(outside.slice(0, 100));
  throw new RangeError(`${subject}: expected a reference within this schema, got ${got} (none is fetched)`);
}

/** A copy that is known to be usable. @throws {ToolError | RangeError} why it is not */
function readSchema(schema: JsonSchema, subject: string): JsonSchema {
  const copy = toVisibleSchema(JSON.parse(toSchemaText(schema, subject)) as JsonSchema, subject);
  compileSchema(copy, { subject });
  return copy;
}

/** Its definition, or why there is none. */
export function readUpstreamTool(raw: unknown): { readonly definition: UpstreamTool } | { readonly problem: string } {
  const parsed = UpstreamToolSchema.safeParse(raw);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return { problem: `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "not a tool"}` };
  }
  const { name, title, description, execution, annotations, inputSchema, outputSchema } = parsed.data;
  if (execution?.taskSupport === "required") return { problem: "It can only be called as a task" };
  const { type = "object" } = inputSchema;
  if (type !== "object") return { problem: `inputSchema/type: expected "object", as all arguments are` };
  const titled = title ?? annotations?.title;
  const named = { ...annotations, ...(titled === undefined ? {} : { title: toVisible(titled) }) };
  try {
    return {
      definition: {
        name,
        description: toVisible(description),
        inputSchema: readSchema(inputSchema, "inputSchema"),
        ...(outputSchema === undefined ? {} : { outputSchema: readSchema(outputSchema, "outputSchema") }),
        ...(Object.keys(named).length === 0 ? {} : { annotations: named }),
      },
    };
  } catch (thrown) {
    if (thrown instanceof RangeError) return { problem: thrown.message };
    return { problem: toToolError(thrown).message };
  }
}
