// Reads the JSON Schema of a tool's input for the form: resolves references, and finds types, choices and the value that a form begins with.
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";

export interface InputSchema {
  readonly type?: string | readonly string[];
  readonly title?: string;
  readonly description?: string;
  readonly properties?: { readonly [name: string]: InputSchema };
  readonly required?: readonly string[];
  readonly items?: InputSchema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly InputSchema[];
  readonly oneOf?: readonly InputSchema[];
  readonly allOf?: readonly InputSchema[];
  readonly prefixItems?: readonly InputSchema[];
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
  readonly $defs?: { readonly [name: string]: InputSchema };
  readonly definitions?: { readonly [name: string]: InputSchema };
}

export type Json = unknown;

export const MAX_DEPTH = 8;

/** Items that a list begins with, whatever it requires. */
const MAX_ITEMS = 20;

/** Maximum number of parts of a schema that are merged into one, and of parts of the value that a form begins with. A schema is code of a tenant. */
const MAX_MERGED = 200;
const MAX_PARTS = 500;

/** Follows a reference within the document, and merges the parts of `allOf`. An unknown reference accepts anything. */
export function resolve(schema: InputSchema, root: InputSchema, depth = 0, budget = { left: MAX_MERGED }): InputSchema {
  budget.left -= 1;
  if (depth > MAX_DEPTH || budget.left < 0) return {};
  const { $ref, allOf = [], ...own } = schema;
  const defined = $ref === undefined ? undefined : definitionOf($ref, root);
  const parts = [...(defined === undefined ? [] : [defined]), ...allOf];
  return parts
    .map((part) => resolve(part, root, depth + 1, budget))
    .reduceRight<InputSchema>((all, part) => merge(part, all), own);
}

/** Returns the part of the document that a JSON pointer such as `#/$defs/address` or `#/properties/address` names. */
function definitionOf(reference: string, root: InputSchema): InputSchema | undefined {
  if (!/^#(?:\/|$)/.test(reference)) return undefined;
  let found: unknown = root;
  for (const segment of reference.split("/").slice(1)) {
    const name = segment.replaceAll("~1", "/").replaceAll("~0", "~");
    const known = [name, decodeText(name)].find(
      (one) => typeof found === "object" && found !== null && Object.hasOwn(found, one),
    );
    if (known === undefined) return undefined;
    found = (found as { readonly [name: string]: unknown })[known];
  }
  return typeof found === "object" && found !== null ? (found as InputSchema) : undefined;
}

function decodeText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const merge = (one: InputSchema, other: InputSchema): InputSchema => ({
  ...one,
  ...other,
  ...(one.properties === undefined && other.properties === undefined
    ? {}
    : { properties: { ...one.properties, ...other.properties } }),
  ...(one.required === undefined && other.required === undefined
    ? {}
    : { required: [...(one.required ?? []), ...(other.required ?? [])] }),
});

/**
 * Returns the branches of a union, each with what the schema requires in every branch. A value that may be null is a choice between null and the
 * rest.
 */
export function choicesOf(schema: InputSchema): readonly InputSchema[] | undefined {
  const { anyOf, oneOf, title: _title, description: _description, default: _default, ...common } = schema;
  const branches = anyOf ?? oneOf;
  if (branches !== undefined && Object.keys(common).length > 0)
    return branches.map((branch) => ({ allOf: [common, branch] }));
  const { type } = schema;
  if (!Array.isArray(type) || type.length < 2) return branches;
  return type.map((one: string) => (one === "null" ? { type: one } : { ...schema, type: one }));
}

/** Returns the names of a union's branches. Branches that have neither a title nor a tag are named after what each requires. */
export function namesOf(choices: readonly InputSchema[], root: InputSchema): readonly string[] {
  const resolved = choices.map((choice) => resolve(choice, root));
  const names = resolved.map((one) => {
    const tag = Object.values(one.properties ?? {}).find(({ const: constant }) => constant !== undefined)?.const;
    return String(one.title ?? tag ?? one.const ?? typeOf(one));
  });
  return names.map((name, at) => {
    if (names.indexOf(name) === names.lastIndexOf(name)) return name;
    const { required = [] } = resolved[at] ?? {};
    const own = required.filter((one) => !resolved.every((other) => other.required?.includes(one)));
    return own.length === 0 ? `${name} ${at + 1}` : `${name} with ${own.join(", ")}`;
  });
}

export const typeOf = ({ type, properties, items, enum: values, const: constant }: InputSchema): string => {
  if (values !== undefined) return "enum";
  if (constant !== undefined) return "const";
  const [first = undefined] = typeof type === "string" ? [type] : (type?.filter((one) => one !== "null") ?? []);
  return first ?? (properties === undefined ? (items === undefined ? "any" : "array") : "object");
};

/** What the value of a form has used up, and the references that lead to the part. */
interface ValueContext {
  readonly budget: { left: number };
  readonly references: readonly string[];
  readonly depth: number;
}

const referencesOf = ({ $ref, allOf = [] }: InputSchema): readonly string[] =>
  [$ref, ...allOf.map((part) => part.$ref)].filter((one) => one !== undefined);

/** Returns the value that a form begins with. Optional parts are left out, and a part that contains itself ends where it can. */
export function initialValue(given: InputSchema, root: InputSchema = given): Json {
  return partValue(given, root, { budget: { left: MAX_PARTS }, references: [], depth: 0 });
}

function partValue(given: InputSchema, root: InputSchema, context: ValueContext): Json {
  const schema = resolve(given, root);
  if (schema.default !== undefined) return schema.default;
  const { budget, depth } = context;
  budget.left -= 1;
  const isOver = depth >= MAX_DEPTH || budget.left < 0;
  const references = [...context.references, ...referencesOf(given)];
  const isRecursive = (part: InputSchema): boolean => referencesOf(part).some((one) => references.includes(one));
  const isEndless = (part: InputSchema): boolean => isRecursive(part) && choicesOf(resolve(part, root)) === undefined;
  const partOf = (part: InputSchema): Json => partValue(part, root, { budget, references, depth: depth + 1 });
  const choices = choicesOf(schema) ?? [];
  const chosen = choices.find((choice) => !isRecursive(choice)) ?? choices[0];
  if (chosen !== undefined && !isOver) return partOf(chosen);
  const type = typeOf(schema);
  if (type === "enum") return schema.enum?.[0];
  if (type === "const") return schema.const;
  if (type === "object" && !isOver) {
    const entries = Object.entries(schema.properties ?? {}).filter(([name]) => schema.required?.includes(name));
    return Object.fromEntries(entries.map(([name, part]) => [name, isEndless(part) ? {} : partOf(part)]));
  }
  if (type === "array" && !isOver) {
    const { prefixItems = [], items = {}, minItems = 0 } = schema;
    const parts = Array.from({ length: Math.min(minItems, MAX_ITEMS) }, (_, index) => prefixItems[index] ?? items);
    return (prefixItems.length > parts.length ? prefixItems : parts).map(partOf);
  }
  const values: { readonly [type: string]: Json } = {
    string: "",
    number: 0,
    integer: 0,
    boolean: false,
    null: null,
    array: [],
  };
  return Object.hasOwn(values, type) ? values[type] : {};
}

/** Returns the value that a form has after another branch of a union was chosen: what all branches have keeps its value. */
export function switchedValue(before: Json, common: InputSchema, chosen: InputSchema, root: InputSchema): Json {
  const next = initialValue(chosen, root);
  if (!isJsonObject(before) || !isJsonObject(next)) return next;
  const own = resolve(chosen, root).properties ?? {};
  const kept = Object.keys(common.properties ?? {}).filter(
    (name) => Object.hasOwn(before, name) && own[name]?.const === undefined,
  );
  return { ...next, ...Object.fromEntries(kept.map((name) => [name, before[name]])) };
}

/** Whether a value has few enough parts for one field each. */
export function isSmall(value: Json): boolean {
  let left = MAX_PARTS;
  const count = (part: Json): boolean => {
    left -= 1;
    return left >= 0 && (typeof part !== "object" || part === null || Object.values(part).every(count));
  };
  return count(value);
}

export function canRender(given: InputSchema): boolean {
  const schema = resolve(given, given);
  if (choicesOf(schema) !== undefined) return true;
  return typeOf(schema) === "object" && Object.keys(schema.properties ?? {}).length > 0;
}

/** Returns the number of bytes that a text in base64 stands for. */
export const byteLengthOf = (base64: string): number => Math.floor((base64.replace(/=+$/, "").length * 3) / 4);

/** Whether a text stands for bytes. `binary` is the name that OpenAPI 3.0 has for them. */
export const isBytes = ({ contentEncoding, format }: InputSchema): boolean =>
  contentEncoding === "base64" || format === "byte" || format === "binary";

/** Whether a value looks like one of this schema: enough to choose a branch of a union. */
export function fits(value: Json, schema: InputSchema): boolean {
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
