// Parses the definition of one tool of an upstream server, which is untrusted. Invisible characters are removed from texts, because a model
// reads them. Schemas are checked like any untrusted schema, within lower limits, and rejected for invisible names or values.
import * as z from "zod";
import type { JsonSchema } from "../../../sandbox/contract/definition.ts";
import { toToolError } from "../../../sandbox/contract/errors.ts";
import type { ToolAnnotations } from "../../../sandbox/contract/tool-annotations.ts";
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { compileSchema } from "../../json-schema/compile-schema.ts";
import { hasAtMost } from "./reading/json-size.ts";
import { toVisibleSchema } from "./text/visible-schema.ts";
import { toVisible } from "./text/visible-text.ts";

/** A tool under the server's own name. */
export interface UpstreamTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema?: JsonSchema | undefined;
  readonly annotations?: ToolAnnotations | undefined;
}

/**
 * Limits of one schema. Large schemas in use have 60 KiB. Within these limits, compiling one takes about 50 ms at most; a server can list a
 * thousand tools.
 */
const MAX_SCHEMA_LENGTH = 128 * 1024;
const MAX_SCHEMA_VALUES = 3_000;

const SchemaSchema = z.custom<JsonSchema>(isJsonObject, "Expected an object");
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

/** Returns the JSON of a schema. @throws {RangeError} for a schema that exceeds the limits or refers to anything outside itself */
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
  if (text.length > MAX_SCHEMA_LENGTH)
    throw new RangeError(`${subject}: expected at most ${MAX_SCHEMA_LENGTH} characters`);
  // Rejected even if validation never reaches the reference: a consumer of the schema could follow it.
  const outside = references.find((reference) => !ids.has(reference.replace(/#.*$/s, "")));
  if (outside === undefined) return text;
  const got = JSON.stringify(outside.slice(0, 100));
  throw new RangeError(
    `${subject}: expected a reference within this schema, got ${got} (remote schemas are not fetched)`,
  );
}

/** Returns a checked copy of a schema. @throws {ToolError | RangeError} for a schema that cannot be used */
function readSchema(schema: JsonSchema, subject: string): JsonSchema {
  const copy = toVisibleSchema(JSON.parse(toSchemaText(schema, subject)) as JsonSchema, subject);
  compileSchema(copy, { subject });
  return copy;
}

/** Returns the definition of a tool, or the reason why it cannot be used. */
export function readUpstreamTool(raw: unknown): { readonly definition: UpstreamTool } | { readonly problem: string } {
  const parsed = UpstreamToolSchema.safeParse(raw);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return { problem: `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "not a tool"}` };
  }
  const { name, title, description, execution, annotations, inputSchema, outputSchema } = parsed.data;
  if (execution?.taskSupport === "required")
    return { problem: "The tool can only be called as a task, which is not supported" };
  const { type = "object" } = inputSchema;
  if (type !== "object") return { problem: `inputSchema/type: expected "object"` };
  const shownTitle = title ?? annotations?.title;
  const merged = { ...annotations, ...(shownTitle === undefined ? {} : { title: toVisible(shownTitle) }) };
  try {
    return {
      definition: {
        name,
        description: toVisible(description),
        inputSchema: readSchema(inputSchema, "inputSchema"),
        ...(outputSchema === undefined ? {} : { outputSchema: readSchema(outputSchema, "outputSchema") }),
        ...(Object.keys(merged).length === 0 ? {} : { annotations: merged }),
      },
    };
  } catch (thrown) {
    if (thrown instanceof RangeError) return { problem: thrown.message };
    return { problem: toToolError(thrown).message };
  }
}
