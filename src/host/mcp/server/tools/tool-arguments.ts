// Converts input schemas and arguments between MCP, whose arguments are always an object, and tools that take other values: those are
// published with one property, `input`, that holds the value.
import type { Tool } from "@modelcontextprotocol/server";
import type { JsonSchema } from "../../../../sandbox/contract/definition.ts";
import type { JsonValue } from "../../../../sandbox/contract/errors.ts";
import { isJsonObject } from "../../../../sandbox/contract/value-kind.ts";
import { embedSchema } from "../../../adapters/embed-schema.ts";
import { parsePointer } from "../../../json-schema/json-pointer.ts";

const WRAPPED = "input";

function resolve(root: JsonSchema, reference: string): JsonValue | undefined {
  const path = reference.startsWith("#") ? parsePointer(reference.slice(1)) : undefined;
  return path?.reduce<JsonValue | undefined>(
    (at, step) => (isJsonObject(at) && Object.hasOwn(at, step) ? at[step] : undefined),
    root,
  );
}

/** Returns whether a schema, or one of its alternatives, accepts values other than objects. */
function acceptsNonObjects(root: JsonSchema): boolean {
  const seen = new Set<JsonValue>();
  const visit = (schema: JsonValue | undefined): boolean => {
    if (!isJsonObject(schema) || seen.has(schema)) return false;
    seen.add(schema);
    const { type, enum: values, anyOf, oneOf, allOf, $ref } = schema;
    if (type !== undefined) return type !== "object";
    const allowed = Object.hasOwn(schema, "const") ? [schema.const] : Array.isArray(values) ? values : [];
    if (allowed.some((value) => !isJsonObject(value))) return true;
    if (typeof $ref === "string" && visit(resolve(root, $ref))) return true;
    return [anyOf, oneOf, allOf].some((parts) => Array.isArray(parts) && parts.some(visit));
  };
  return visit(root);
}

/**
 * Returns the value that the tool is called with. Arguments that are not wrapped as `{ input }` are returned unchanged: the tool's own
 * schema then reports what is wrong with them.
 * @param inputSchema undefined for a tool that is not known yet
 */
export function toArguments(inputSchema: JsonSchema | undefined, args: Readonly<Record<string, unknown>>): unknown {
  const isWrapped = Object.keys(args).length === 1 && Object.hasOwn(args, WRAPPED);
  return isWrapped && inputSchema !== undefined && acceptsNonObjects(inputSchema) ? args[WRAPPED] : args;
}

/** Returns the input schema that clients see, which always describes an object. */
export function toInputSchema(inputSchema: JsonSchema): Tool["inputSchema"] {
  if (!acceptsNonObjects(inputSchema)) return { ...inputSchema, type: "object" };
  const input = embedSchema(inputSchema, `#/properties/${WRAPPED}`, "urn:glovebox:input") as JsonSchema;
  return {
    type: "object",
    properties: { [WRAPPED]: input },
    required: [WRAPPED],
    additionalProperties: false,
  } as Tool["inputSchema"];
}
