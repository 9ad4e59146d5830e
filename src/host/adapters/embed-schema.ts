// A tool's JSON Schema as a part of a larger document: its own references go on meaning what they meant.
import type { JsonSchema } from "../../sandbox/contract/definition.ts";
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import { KEYWORD_SHAPES } from "../json-schema/keywords.ts";

/** With one of these a schema must stay a resource of its own: what they mean cannot be said by a pointer. */
const NAMED = ["$id", "id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor"];

type MutableSchema = { [keyword: string]: JsonValue };

/**
 * @param pointer where it is put, as a fragment: `#/components/schemas/add`
 * @param id what it is called if it has to have an `$id`
 */
export function embedSchema(schema: JsonSchema, pointer: string, id: string): JsonSchema {
  const isNamed = hasNames(schema);
  const embedded = isNamed ? schema : (moveReferences(schema, pointer) as MutableSchema);
  return isNamed && !Object.hasOwn(schema, "$id") ? { $id: id, ...embedded } : embedded;
}

function hasNames(schema: JsonSchema): boolean {
  let found = false;
  walk(schema, (part) => {
    found ||= NAMED.some((keyword) => typeof part[keyword] === "string" || part[keyword] === true);
  });
  return found;
}

function moveReferences(schema: JsonSchema, pointer: string): JsonSchema {
  const copy = structuredClone(schema) as MutableSchema;
  walk(copy, (part) => {
    const { $ref } = part;
    if (typeof $ref === "string" && $ref.startsWith("#")) part.$ref = pointer + $ref.slice(1);
  });
  return copy;
}

const isObject = (value: JsonValue | undefined): value is MutableSchema =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Each subschema once, by what keywords hold: a `$ref` among examples or property names is none. */
function walk(schema: JsonSchema, visit: (part: MutableSchema) => void): void {
  const part = schema as MutableSchema;
  visit(part);
  for (const [keyword, value] of Object.entries(part)) {
    const shape = KEYWORD_SHAPES.get(keyword);
    if (shape?.startsWith("schema") !== true && shape !== "pattern map") continue;
    const isMap = shape.endsWith("map");
    for (const below of isMap || Array.isArray(value) ? Object.values(value as object) : [value]) {
      if (isObject(below)) walk(below, visit);
    }
  }
}
