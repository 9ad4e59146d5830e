// Reads the JSON Schema of a tool's input for the form: resolves references, and finds types, choices and the value that a form begins with.

export interface FormSchema {
  readonly type?: string | readonly string[];
  readonly title?: string;
  readonly description?: string;
  readonly properties?: { readonly [name: string]: FormSchema };
  readonly required?: readonly string[];
  readonly items?: FormSchema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly FormSchema[];
  readonly oneOf?: readonly FormSchema[];
  readonly allOf?: readonly FormSchema[];
  readonly prefixItems?: readonly FormSchema[];
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly default?: unknown;
  readonly format?: string;
  readonly contentEncoding?: string;
  readonly contentMediaType?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly $ref?: string;
  readonly $defs?: { readonly [name: string]: FormSchema };
  readonly definitions?: { readonly [name: string]: FormSchema };
}

export type Json = unknown;

export const MAX_DEPTH = 8;

/** Items that a list begins with, whatever it requires. */
const MAX_ITEMS = 20;

/** Follows a reference within the document, and merges the parts of `allOf`. An unknown reference accepts anything. */
export function resolve(schema: FormSchema, root: FormSchema, depth = 0): FormSchema {
  if (depth > MAX_DEPTH) return {};
  const { $ref, allOf = [], ...own } = schema;
  const defined = $ref === "#" ? root : definitionOf($ref ?? "", root);
  const parts = [...(defined === undefined ? [] : [defined]), ...allOf];
  return parts
    .map((part) => resolve(part, root, depth + 1))
    .reduceRight<FormSchema>((all, part) => merge(part, all), own);
}

/** Returns the part of the document that a JSON pointer such as `#/$defs/address` names. */
function definitionOf(reference: string, { $defs, definitions }: FormSchema): FormSchema | undefined {
  const [, pointer = ""] = /^#\/(?:\$defs|definitions)\/([^/]+)$/.exec(reference) ?? [];
  const parts = $defs ?? definitions ?? {};
  const name = pointer.replaceAll("~1", "/").replaceAll("~0", "~");
  return [name, decodeText(name)].filter((one) => Object.hasOwn(parts, one)).map((one) => parts[one])[0];
}

function decodeText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const merge = (one: FormSchema, other: FormSchema): FormSchema => ({
  ...one,
  ...other,
  ...(one.properties === undefined && other.properties === undefined
    ? {}
    : { properties: { ...one.properties, ...other.properties } }),
  ...(one.required === undefined && other.required === undefined
    ? {}
    : { required: [...(one.required ?? []), ...(other.required ?? [])] }),
});

/** A value that may be null is a choice between null and the rest. */
export function choicesOf(schema: FormSchema): readonly FormSchema[] | undefined {
  const { type } = schema;
  if (!Array.isArray(type) || type.length < 2) return schema.anyOf ?? schema.oneOf;
  return type.map((one: string) => (one === "null" ? { type: one } : { ...schema, type: one }));
}

export const typeOf = ({ type, properties, items, enum: values, const: constant }: FormSchema): string => {
  if (values !== undefined) return "enum";
  if (constant !== undefined) return "const";
  const [first = undefined] = typeof type === "string" ? [type] : (type?.filter((one) => one !== "null") ?? []);
  return first ?? (properties === undefined ? (items === undefined ? "any" : "array") : "object");
};

/** Returns the value that a form begins with. Optional parts are left out. */
export function initialValue(given: FormSchema, root: FormSchema = given, depth = 0): Json {
  const schema = resolve(given, root);
  if (schema.default !== undefined) return schema.default;
  const [first] = choicesOf(schema) ?? [];
  if (first !== undefined && depth < MAX_DEPTH) return initialValue(first, root, depth + 1);
  const type = typeOf(schema);
  if (type === "enum") return schema.enum?.[0];
  if (type === "const") return schema.const;
  if (type === "object" && depth < MAX_DEPTH) {
    const entries = Object.entries(schema.properties ?? {}).filter(([name]) => schema.required?.includes(name));
    return Object.fromEntries(entries.map(([name, part]) => [name, initialValue(part, root, depth + 1)]));
  }
  if (type === "array" && depth < MAX_DEPTH) {
    const { prefixItems = [], items = {}, minItems = 0 } = schema;
    const parts = Array.from({ length: Math.min(minItems, MAX_ITEMS) }, (_, index) => prefixItems[index] ?? items);
    return (prefixItems.length > parts.length ? prefixItems : parts).map((part) => initialValue(part, root, depth + 1));
  }
  const values: { readonly [type: string]: Json } = {
    string: "",
    number: 0,
    integer: 0,
    boolean: false,
    null: null,
  };
  return Object.hasOwn(values, type) ? values[type] : {};
}

export function canRender(given: FormSchema): boolean {
  const schema = resolve(given, given);
  if (choicesOf(schema) !== undefined) return true;
  return typeOf(schema) === "object" && Object.keys(schema.properties ?? {}).length > 0;
}

/** Returns the number of bytes that a text in base64 stands for. */
export const byteLengthOf = (base64: string): number => Math.floor((base64.replace(/=+$/, "").length * 3) / 4);

/** Whether a text stands for bytes. `binary` is the name that OpenAPI 3.0 has for them. */
export const isBytes = ({ contentEncoding, format }: FormSchema): boolean =>
  contentEncoding === "base64" || format === "byte" || format === "binary";

/** Whether a value looks like one of this schema: enough to choose a branch of a union. */
export function fits(value: Json, schema: FormSchema): boolean {
  if (schema.const !== undefined) return schema.const === value;
  if (schema.enum !== undefined) return schema.enum.includes(value);
  const type = typeOf(schema);
  if (value === null || Array.isArray(value)) return type === (value === null ? "null" : "array");
  if (typeof value !== "object") return type === typeof value || (type === "integer" && Number.isInteger(value));
  const own = value as { readonly [name: string]: Json };
  return (
    type === "object" &&
    (schema.required ?? []).every((name) => Object.hasOwn(own, name)) &&
    Object.entries(schema.properties ?? {}).every(
      ([name, part]) => part.const === undefined || !Object.hasOwn(own, name) || part.const === own[name],
    )
  );
}
