// The table of JSON Schema keywords with the form of their values. It tells where subschemas are and which schemas are malformed.

export type KeywordShape =
  | "schema"
  | "schemas"
  | "schema or schemas"
  | "schema map"
  | "schema or strings map"
  | "strings map"
  | "strings"
  | "list"
  | "type"
  | "string"
  | "boolean"
  | "count"
  | "number"
  | "number or boolean"
  | "positive number"
  | "pattern"
  | "pattern map";

const SHAPES = {
  $id: "string",
  $schema: "string",
  $ref: "string",
  $anchor: "string",
  $dynamicRef: "string",
  $dynamicAnchor: "string",
  $recursiveRef: "string",
  $recursiveAnchor: "boolean",
  $defs: "schema map",
  definitions: "schema map",
  type: "type",
  enum: "list",
  allOf: "schemas",
  anyOf: "schemas",
  oneOf: "schemas",
  not: "schema",
  if: "schema",
  else: "schema",
  properties: "schema map",
  patternProperties: "pattern map",
  additionalProperties: "schema",
  unevaluatedProperties: "schema",
  propertyNames: "schema",
  required: "strings",
  minProperties: "count",
  maxProperties: "count",
  dependentRequired: "strings map",
  dependentSchemas: "schema map",
  dependencies: "schema or strings map",
  prefixItems: "schemas",
  items: "schema or schemas",
  additionalItems: "schema",
  unevaluatedItems: "schema",
  contains: "schema",
  minContains: "count",
  maxContains: "count",
  minItems: "count",
  maxItems: "count",
  uniqueItems: "boolean",
  minimum: "number",
  maximum: "number",
  exclusiveMinimum: "number or boolean",
  exclusiveMaximum: "number or boolean",
  multipleOf: "positive number",
  minLength: "count",
  maxLength: "count",
  pattern: "pattern",
  format: "string",
} as const satisfies Record<string, KeywordShape>;

/** A Map, so that a keyword such as `constructor` finds no inherited property. */
export const KEYWORD_SHAPES: ReadonlyMap<string, KeywordShape> = new Map<string, KeywordShape>([
  ...Object.entries(SHAPES),
  // Not in the table, since an object with this key would count as a promise.
  ["then", "schema"],
]);

export const TYPE_NAMES: readonly string[] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/** Dialects by their `$schema`, without scheme, "www." or a trailing "#". */
const DIALECTS: ReadonlyMap<string, Dialect> = new Map([
  ["json-schema.org/draft/2020-12/schema", "2020-12"],
  ["json-schema.org/draft/2019-09/schema", "2019-09"],
  ["json-schema.org/draft-07/schema", "draft-07"],
  ["json-schema.org/draft-06/schema", "draft-06"],
  ["json-schema.org/draft-04/schema", "draft-04"],
]);

export type Dialect = "2020-12" | "2019-09" | "draft-07" | "draft-06" | "draft-04";

export const DIALECT_NAMES: readonly Dialect[] = [...DIALECTS.values()];

/** Returns the dialect that a `$schema` names; undefined for an unknown one. A schema without it is 2020-12. */
export const dialectOf = (setting: string | undefined): Dialect | undefined =>
  setting === undefined ? "2020-12" : DIALECTS.get(setting.replace(/^https?:\/\/(www\.)?/, "").replace(/#$/, ""));

/** Tells whether keywords next to a `$ref` are ignored, as up to draft-07. */
export function refHidesSiblings(dialect: Dialect): boolean {
  return dialect.startsWith("draft-");
}
