// MCP's arguments are an object. A tool that takes other values is shown as one that takes them in an object, under one name.
import type { Tool } from "@modelcontextprotocol/server";
import type { JsonSchema } from "../../../sandbox/contract/definition.ts";
import type { JsonValue } from "../../../sandbox/contract/errors.ts";
import { embedSchema } from "../../adapters/embed-schema.ts";
import { parsePointer } from "../../json-schema/json-pointer.ts";

const WRAPPED = "input";

const isObject = (value: JsonValue | undefined): value is JsonSchema =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function resolve(root: JsonSchema, reference: string): JsonValue | undefined {
  const path = reference.startsWith("#") ? parsePointer(reference.slice(1)) : undefined;
  return path?.reduce<JsonValue | undefined>(
    (at, step) => (isObject(at) && Object.hasOwn(at, step) ? at[step] : undefined),
    root,
  );
}

/** Whether a schema says of itself, or of one of its choices, that it takes something that is no object. */
function takesOthers(root: JsonSchema): boolean {
  const seen = new Set<JsonValue>();
  const visit = (schema: JsonValue | undefined): boolean => {
    if (!isObject(schema) || seen.has(schema)) return false;
    seen.add(schema);
    const { type, enum: values, anyOf, oneOf, allOf, $ref } = schema;
    if (type !== undefined) return type !== "object";
    const stated = Object.hasOwn(schema, "const") ? [schema.const] : Array.isArray(values) ? values : [];
    if (stated.some((value) => !isObject(value))) return true;
    if (typeof $ref === "string" && visit(resolve(root, $ref))) return true;
    return [anyOf, oneOf, allOf].some((parts) => Array.isArray(parts) && parts.some(visit));
  };
  return visit(root);
}

/**
 * What the tool is called with. Arguments that do not stand in the one name that was asked for go on as they are: what is wrong with them
 * the tool's own schema says.
 * @param inputSchema undefined for a tool that is not known yet
 */
export function toArguments(inputSchema: JsonSchema | undefined, args: Readonly<Record<string, unknown>>): unknown {
  const isWrapped = Object.keys(args).length === 1 && Object.hasOwn(args, WRAPPED);
  return isWrapped && inputSchema !== undefined && takesOthers(inputSchema) ? args[WRAPPED] : args;
}

export function toInputSchema(inputSchema: JsonSchema): Tool["inputSchema"] {
  if (!takesOthers(inputSchema)) return { ...inputSchema, type: "object" };
  const input = embedSchema(inputSchema, `#/properties/${WRAPPED}`, "urn:glovebox:input") as JsonSchema;
  return {
    type: "object",
    properties: { [WRAPPED]: input },
    required: [WRAPPED],
    additionalProperties: false,
  } as Tool["inputSchema"];
}
