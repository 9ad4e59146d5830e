// Generates TypeScript types from JSON Schemas, for code that calls tools. Schemas are untrusted: parts that TypeScript cannot express become
// `unknown`, text of a schema never becomes code, and the output is bounded.
import type { JsonSchema } from "../../sandbox/contract/definition.ts";
import { toVisibleText } from "../util/visible-text.ts";

/** Limits of the generated types. */
const MAX_DEPTH = 40;
const MAX_NODES = 20_000;
const MAX_LITERALS = 500;
const MAX_TEXT = 500;
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;
/** Names that have another meaning in a type. */
const RESERVED = new Set([
  ...[
    "any",
    "bigint",
    "boolean",
    "never",
    "null",
    "number",
    "object",
    "string",
    "symbol",
    "undefined",
    "unknown",
    "void",
  ],
  ..."Array Promise Record Tools".split(" "),
]);

type Node = { readonly [keyword: string]: unknown };
const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && !Array.isArray(value);

/** Converts a tool's name to the name of a type: `csv-stats` becomes `CsvStats`. */
export function toTypeName(name: string): string {
  const words = name.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  const joined = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
  return /^[A-Za-z]/.test(joined) && !RESERVED.has(joined) ? joined : `Tool${joined}`;
}

/** The type names of a file. Each name is used once. */
export class TypeNames {
  readonly #taken = new Set<string>(RESERVED);

  take(wanted: string): string {
    let name = wanted;
    for (let number = 2; this.#taken.has(name); number += 1) name = `${wanted}${number}`;
    this.#taken.add(name);
    return name;
  }
}

export const propertyKey = (name: string): string => (IDENTIFIER.test(name) ? name : quoted(name));

/** Returns the name of an interface's method. Without quotes, `new` would declare a construct signature. */
export const methodKey = (name: string): string => (name === "new" ? quoted(name) : propertyKey(name));

/** Returns a string literal. Characters that reorder, end or hide a part of the line are escaped. */
const quoted = (text: string): string => toVisibleText(JSON.stringify(text));

/** Returns a description as a comment. The text cannot end the comment. */
export function toComment(text: unknown, indent: string): string {
  if (typeof text !== "string" || text.trim() === "") return "";
  const line = text.replace(/[\p{Cc}\u2028\u2029]+/gu, " ").trim();
  const cut = line.length > MAX_TEXT ? `${line.slice(0, MAX_TEXT)}…` : line;
  return `${indent}/** ${toVisibleText(cut).replaceAll("*/", "* /")} */\n`;
}

const SCALARS: { readonly [type: string]: string } = {
  string: "string",
  number: "number",
  integer: "number",
  boolean: "boolean",
  null: "null",
};

/** The position of a type. It serves to detect types that refer only to each other. */
interface TypePosition {
  readonly depth: number;
  readonly indent: string;
  /** Names of enclosing declarations that would refer to this type directly, without an object or array in between. */
  readonly direct: readonly string[];
}

/** Generates the type of one schema, and the types of its references. */
export class SchemaTypes {
  readonly #root: JsonSchema;
  readonly #names: TypeNames;
  readonly #prefix: string;
  /** Type names by pointer. */
  readonly #references = new Map<string, string>();
  readonly declarations: string[] = [];
  #nodes = 0;

  /** @param prefix prefix of the type names of references */
  constructor(root: JsonSchema, names: TypeNames, prefix: string) {
    this.#root = root;
    this.#names = names;
    this.#prefix = prefix;
  }

  /** Declares the whole schema as a type of this name. */
  declare(name: string, description?: string): string {
    this.#references.set("#", name);
    const type = this.#type(this.#root, { depth: 0, indent: "", direct: [name] });
    return `${toComment(description, "")}export type ${name} = ${type};`;
  }

  #type(schema: unknown, position: TypePosition): string {
    this.#nodes += 1;
    if (schema === false) return "never";
    if (!isNode(schema) || position.depth > MAX_DEPTH || this.#nodes > MAX_NODES) return "unknown";
    if (typeof schema.$ref === "string") return this.#reference(schema.$ref, position);
    if ("const" in schema) return literal(schema.const);
    if (Array.isArray(schema.enum)) return union(schema.enum.slice(0, MAX_LITERALS).map(literal));
    const parts: string[] = [];
    for (const keyword of ["anyOf", "oneOf"]) {
      const branches = schema[keyword];
      if (Array.isArray(branches)) parts.push(union(branches.map((branch) => this.#type(branch, deeper(position)))));
    }
    if (Array.isArray(schema.allOf)) parts.push(...schema.allOf.map((branch) => this.#type(branch, deeper(position))));
    const own = this.#ownType(schema, position);
    if (own !== "unknown") parts.push(own);
    return intersection(parts.filter((part) => part !== "unknown"));
  }

  #ownType(schema: Node, position: TypePosition): string {
    const { type } = schema;
    if (Array.isArray(type)) return union(type.map((one) => this.#typed(schema, one, position)));
    if (type !== undefined) return this.#typed(schema, type, position);
    if (isNode(schema.properties)) return this.#object(schema, position);
    return "items" in schema || "prefixItems" in schema ? this.#array(schema, position) : "unknown";
  }

  #typed(schema: Node, type: unknown, position: TypePosition): string {
    if (type === "object") return this.#object(schema, position);
    if (type === "array") return this.#array(schema, position);
    return typeof type === "string" && Object.hasOwn(SCALARS, type) ? (SCALARS[type] ?? "unknown") : "unknown";
  }

  #array({ items, prefixItems }: Node, position: TypePosition): string {
    const inside = { ...deeper(position), direct: [] };
    const rest = items === false ? undefined : this.#type(items, inside);
    if (!Array.isArray(prefixItems)) return rest === undefined ? "[]" : `readonly (${rest})[]`;
    // An array may be shorter than `prefixItems`.
    const first = prefixItems.slice(0, MAX_LITERALS).map((item) => `(${this.#type(item, inside)})?`);
    return `readonly [${[...first, ...(rest === undefined ? [] : [`...(${rest})[]`])].join(", ")}]`;
  }

  #object({ properties, required, additionalProperties }: Node, position: TypePosition): string {
    const indent = `${position.indent}  `;
    const inside = { depth: position.depth + 1, indent, direct: [] };
    const names = isNode(properties) ? Object.keys(properties) : [];
    const mandatory = new Set<unknown>(Array.isArray(required) ? required : []);
    const lines = names.map((name) => {
      const property = (properties as Node)[name];
      const comment = toComment(isNode(property) ? property.description : undefined, indent);
      return `${comment}${indent}readonly ${propertyKey(name)}${mandatory.has(name) ? "" : "?"}: ${this.#type(property, inside)};`;
    });
    if (additionalProperties !== undefined && additionalProperties !== false) {
      // The type of an index signature must include the types of all named properties.
      const value = names.length === 0 ? this.#type(additionalProperties, inside) : "unknown";
      lines.push(`${indent}readonly [key: string]: ${value};`);
    } else if (names.length === 0) {
      lines.push(`${indent}readonly [key: string]: ${additionalProperties === false ? "never" : "unknown"};`);
    }
    return `{\n${lines.join("\n")}\n${position.indent}}`;
  }

  #reference(pointer: string, { direct }: TypePosition): string {
    const known = this.#references.get(pointer);
    if (known !== undefined) return direct.includes(known) ? "unknown" : known;
    const target = this.#resolve(pointer);
    if (target === undefined) return "unknown";
    const name = this.#names.take(`${this.#prefix}${toTypeName(pointer.split("/").at(-1) ?? "")}`);
    this.#references.set(pointer, name);
    const type = this.#type(target, { depth: 0, indent: "", direct: [...direct, name] });
    this.declarations.push(`${toComment(target.description, "")}export type ${name} = ${type};`);
    return name;
  }

  /** Resolves a pointer (RFC 6901) within the document. */
  #resolve(reference: string): Node | undefined {
    if (!reference.startsWith("#/")) return undefined;
    let at: unknown = this.#root;
    for (const part of reference.slice(2).split("/")) {
      const key = decode(part).replaceAll("~1", "/").replaceAll("~0", "~");
      if ((!isNode(at) && !Array.isArray(at)) || !Object.hasOwn(at, key)) return undefined;
      at = (at as Node)[key];
    }
    return isNode(at) ? at : undefined;
  }
}

const deeper = (position: TypePosition): TypePosition => ({ ...position, depth: position.depth + 1 });

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function literal(value: unknown): string {
  if (typeof value === "string") return quoted(value);
  if (value === null || typeof value === "boolean" || typeof value === "number") return JSON.stringify(value);
  return "unknown";
}

function union(types: readonly string[]): string {
  const different = [...new Set(types)];
  if (different.length === 0) return "never";
  if (different.includes("unknown")) return "unknown";
  return different.length === 1 ? (different[0] ?? "never") : different.map((type) => `(${type})`).join(" | ");
}

function intersection(types: readonly string[]): string {
  const [first, ...others] = new Set(types);
  if (first === undefined) return "unknown";
  return others.length === 0 ? first : [first, ...others].map((type) => `(${type})`).join(" & ");
}
