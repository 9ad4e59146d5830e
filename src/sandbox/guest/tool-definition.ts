// Reads and checks the fields of a tool's definition, as its module exports them.
import { MAX_MISNAMED, MISNAMED_SCHEMAS } from "../contract/schema-names.ts";
import { describeValue, truncateText } from "./error-text.ts";
import { ArrayIsArray, ObjectKeys, StringPrototypeToLowerCase } from "./primordials.ts";
import { findNonJson, isStandardSchema, toJsonSchema } from "./schema.ts";

export interface LoadedTool {
  readonly receiver: unknown;
  readonly execute: (input: unknown, ctx: unknown) => unknown;
  readonly fields: { readonly [name: string]: unknown };
}

export const DEFINITION_FIELDS = [
  "name",
  "description",
  "annotations",
  "capabilities",
  "limits",
  "durable",
  "prewarm",
] as const;

/** Reads the two forms of a tool: a default export with `execute`, or a function as default export plus named exports. */
export function toLoadedTool(namespace: { readonly [name: string]: unknown }): LoadedTool | undefined {
  let main = namespace.default;
  // The default export of a CommonJS file with `module.exports = { default: … }` is one level deeper.
  if (typeof main === "object" && main !== null && !("execute" in main) && "default" in main) main = main.default;
  if (typeof main === "function" && !isStandardSchema(main)) {
    // If a CommonJS module exports a function, the function is also the namespace, and `name` is the function's own name.
    const named = namespace.name === main.name ? { ...namespace, name: undefined } : namespace;
    // Properties of the function itself: `run.inputSchema = { … }; export default run`.
    const fields = { ...(main as unknown as object), ...named };
    return { receiver: undefined, execute: main as LoadedTool["execute"], fields };
  }
  if (typeof main !== "object" || main === null) return undefined;
  const fields = main as { readonly [name: string]: unknown };
  const execute = fields.execute;
  if (typeof execute !== "function") return undefined;
  return { receiver: main, execute: execute as LoadedTool["execute"], fields };
}

type SchemaField = "inputSchema" | "outputSchema";

/** Returns the message for an invalid schema, or undefined if it is valid. A library's schema may be a function. */
export function schemaError(fields: LoadedTool["fields"], name: SchemaField): string | undefined {
  const schema = fields[name];
  if (schema === undefined || isStandardSchema(schema)) return undefined;
  if (typeof schema === "object" && schema !== null) {
    const found = findNonJson(schema, true);
    return found && `Expected ${name} to be a Standard Schema or a JSON Schema object, got ${found}`;
  }
  return `Expected ${name} to be a Standard Schema or a JSON Schema object, got ${truncateText(describeValue(schema), 200)}`;
}

const OBJECT_FIELDS = ["annotations", "capabilities", "limits"] as const;

/** Returns the message for an object of the definition whose contents JSON would drop, such as a Map. */
export function objectError(fields: LoadedTool["fields"]): string | undefined {
  for (let index = 0; index < OBJECT_FIELDS.length; index += 1) {
    const name = OBJECT_FIELDS[index] as string;
    const found = findNonJson(fields[name], false);
    if (found !== undefined) return `Expected ${name} to be a plain object, got ${found}`;
  }
  return undefined;
}

export function schemaField(fields: LoadedTool["fields"], name: SchemaField): unknown {
  const schema = fields[name];
  return isStandardSchema(schema) ? toJsonSchema(schema, name === "inputSchema" ? "input" : "output") : schema;
}

/** Returns the names of ignored fields that look like a misspelled schema field. */
export function misnamedFields(fields: LoadedTool["fields"]): readonly string[] {
  const found: string[] = [];
  const names = ObjectKeys(fields);
  for (let index = 0; index < names.length && found.length < MAX_MISNAMED; index += 1) {
    const name = names[index] as string;
    const meant = MISNAMED_SCHEMAS[StringPrototypeToLowerCase(name)];
    if (meant !== undefined && (name === meant || fields[meant] !== undefined)) continue;
    if (meant === undefined ? holdsSchema(fields, name) : looksLikeSchema(fields, name)) found[found.length] = name;
  }
  return found;
}

/** Matches a definition for another framework: OpenAI's `{ type: "function", function: { name, parameters } }`, or Anthropic's. */
function holdsSchema(fields: LoadedTool["fields"], name: string): boolean {
  if (name === "default" || fields.inputSchema !== undefined || !looksLikeSchema(fields, name)) return false;
  try {
    const value = fields[name] as { readonly [key: string]: unknown };
    const inner = value.type === "function" && looksLikeSchema(value, "function") ? value.function : value;
    const named = inner as { readonly [key: string]: unknown };
    if (typeof named.name !== "string") return false;
    return looksLikeSchema(named, "parameters") || looksLikeSchema(named, "input_schema");
  } catch {
    return false;
  }
}

function looksLikeSchema(fields: LoadedTool["fields"], name: string): boolean {
  try {
    const value = fields[name];
    return (typeof value === "object" && value !== null && !ArrayIsArray(value)) || isStandardSchema(value);
  } catch {
    // A getter threw. It was called only for this check, so its error does not matter.
    return false;
  }
}
