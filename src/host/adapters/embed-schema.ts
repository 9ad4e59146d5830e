// Embeds a tool's JSON Schema in a larger document and keeps its internal references valid.
import type { JsonSchema } from "../../sandbox/contract/definition.ts";
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import { KEYWORD_SHAPES } from "../json-schema/schema/keywords.ts";

/** Keywords that a JSON pointer cannot express. A schema that uses one must stay a schema resource with its own `$id`. */
const RESOURCE_KEYWORDS = [
  "$id",
  "id",
  "$anchor",
  "$dynamicAnchor",
  "$dynamicRef",
  "$recursiveRef",
  "$recursiveAnchor",
];

type MutableSchema = { [keyword: string]: JsonValue };

/**
 * @param pointer location of the schema in the document, as a fragment: `#/components/schemas/add`
 * @param id `$id` of the schema if it needs one
 */
export function embedSchema(schema: JsonSchema, pointer: string, id: string): JsonSchema {
  const isResource = usesResourceKeywords(schema);
  const embedded = isResource
    ? schema
    : (moveReferences(schema, (reference) => pointer + reference.slice(1)) as MutableSchema);
  return isResource && !Object.hasOwn(schema, "$id") ? { $id: id, ...embedded } : embedded;
}

function usesResourceKeywords(schema: JsonSchema): boolean {
  let found = false;
  walk(schema, (part) => {
    found ||= RESOURCE_KEYWORDS.some((keyword) => typeof part[keyword] === "string" || part[keyword] === true);
  });
  return found;
}

/** Returns a copy of a schema in which `move` has replaced each reference within the schema (`#…`). */
export function moveReferences(schema: JsonSchema, move: (reference: string) => string): JsonSchema {
  const copy = structuredClone(schema) as MutableSchema;
  walk(copy, (part) => {
    const { $ref } = part;
    if (typeof $ref === "string" && $ref.startsWith("#")) part.$ref = move($ref);
  });
  return copy;
}

const isObject = (value: JsonValue | undefined): value is MutableSchema =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Visits each subschema once, following schema keywords only: a `$ref` in an example or as a property name is not a reference. */
function walk(schema: JsonSchema, visit: (part: MutableSchema) => void): void {
  const part = schema as MutableSchema;
  visit(part);
  for (const [keyword, value] of Object.entries(part)) {
    const shape = KEYWORD_SHAPES.get(keyword);
    if (shape?.startsWith("schema") !== true && shape !== "pattern map") continue;
    const isMap = shape.endsWith("map");
    for (const child of isMap || Array.isArray(value) ? Object.values(value as object) : [value]) {
      if (isObject(child)) walk(child, visit);
    }
  }
}
