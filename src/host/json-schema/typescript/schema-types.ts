// Generates TypeScript types from JSON Schemas, for code that calls tools. Schemas are untrusted: parts that TypeScript cannot express become
// `unknown`, text of a schema never becomes code, and the output is bounded.
import type { JsonSchema } from "../../../sandbox/contract/definition.ts";
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { dialectOf, refHidesSiblings } from "../schema/keywords.ts";
import {
  element,
  enumeration,
  intersection,
  literal,
  MAX_LITERAL,
  MAX_LITERALS,
  type Node,
  operand,
  propertyComment,
  propertyKey,
  SCALARS,
  type TypeNames,
  toComment,
  toTypeName,
  union,
} from "./type-text.ts";

/** Limits of the generated types. */
const MAX_DEPTH = 40;
/** Longest text of one schema's types, in UTF-16 code units. What does not fit becomes `unknown`. */
const MAX_LENGTH = 512 * 1024;
/** Length that each part of a schema counts as: parts without a text take time too. */
const PART_LENGTH = 8;

/** The position of a type. It serves to detect types that refer only to each other. */
interface TypePosition {
  readonly depth: number;
  readonly indent: string;
  /** Names of enclosing declarations that would refer to this type directly, without an object or array in between. */
  readonly direct: readonly string[];
}

export interface SchemaTypesOptions {
  /** Whether objects and arrays can be changed. @default false */
  readonly isMutable?: boolean;
  /** Whether declarations are not exported. @default false */
  readonly isLocal?: boolean;
  /**
   * Whether values of the type are written as literals: `{}` must then be assignable to a type with an optional property such as `constructor`,
   * although each object inherits a member of that name. @default false
   */
  readonly isWritten?: boolean;
  /** Longest text, in UTF-16 code units. What does not fit becomes `unknown`. @default 524_288 */
  readonly maxLength?: number;
}

/** A type that is declared later. */
interface PendingType {
  readonly name: string;
  readonly target: Node;
}

/** Members that each object inherits. All are functions. */
const INHERITED: ReadonlySet<string> = new Set([
  ...["constructor", "toString", "toLocaleString", "valueOf"],
  ...["hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"],
]);

/** Generates the type of one schema, and the types of its references. */
export class SchemaTypes {
  readonly #root: JsonSchema;
  readonly #names: TypeNames;
  readonly #prefix: string;
  /** Type names by pointer. */
  readonly #references = new Map<string, string>();
  /** References that are inside of an object or an array. Resolving them one after the other keeps long chains off the stack. */
  readonly #pending = new Map<string, PendingType>();
  readonly declarations: string[] = [];
  readonly #maxLength: number;
  #length = 0;

  readonly #readonly: string;
  readonly #export: string;
  readonly #refHidesSiblings: boolean;
  readonly #isWritten: boolean;
  /** Whether the schema refers to itself as a whole. */
  #isRecursive = false;

  /** @param prefix prefix of the type names of references */
  constructor(
    root: JsonSchema,
    names: TypeNames,
    prefix: string,
    { isMutable, isLocal, isWritten = false, maxLength = MAX_LENGTH }: SchemaTypesOptions = {},
  ) {
    this.#root = root;
    this.#names = names;
    this.#prefix = prefix;
    this.#refHidesSiblings = refHidesSiblings(
      (typeof root.$schema === "string" ? dialectOf(root.$schema) : undefined) ?? "2020-12",
    );
    this.#readonly = isMutable === true ? "" : "readonly ";
    this.#export = isLocal === true ? "" : "export ";
    this.#isWritten = isWritten;
    this.#maxLength = maxLength;
  }

  /** Length of the text that was made, about in proportion to the time that it took. */
  get length(): number {
    return this.#length;
  }

  /** Declares the whole schema as a type of this name. */
  declare(name: string, description?: string): string {
    return `${toComment(description, "")}${this.#export}type ${name} = ${this.#whole(name)};`;
  }

  /** Returns the type of the whole schema without a declaration, or its name if it refers to itself and was declared for that. */
  inline(): string {
    const type = this.#whole(this.#prefix);
    if (!this.#isRecursive) return type;
    this.declarations.unshift(`${this.#export}type ${this.#prefix} = ${type};`);
    return this.#prefix;
  }

  #whole(name: string): string {
    this.#references.set("#", name);
    const type = this.#type(this.#root, { depth: 0, indent: "", direct: [name] });
    for (const [pointer, pending] of this.#pending) this.#declare(pointer, pending, { depth: 0, direct: [] });
    return type;
  }

  #type(schema: unknown, position: TypePosition): string {
    this.#length += PART_LENGTH;
    if (schema === false) return "never";
    if (!isJsonObject(schema) || position.depth > MAX_DEPTH || this.#isFull) return "unknown";
    if (typeof schema.$ref !== "string") return this.#plainType(schema, position);
    const { $ref, ...others } = schema;
    const parts = [
      this.#reference($ref, position),
      ...(this.#refHidesSiblings ? [] : [this.#plainType(others, position)]),
    ];
    return intersection(parts.filter((part) => part !== "unknown"));
  }

  /** Whether the schema has more parts or longer text than its types may have. */
  get #isFull(): boolean {
    return this.#length > this.#maxLength;
  }

  #plainType(schema: Node, position: TypePosition): string {
    if ("const" in schema) return this.#counted(literal(schema.const));
    if (Array.isArray(schema.enum)) return this.#counted(enumeration(schema.enum));
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

  #counted(text: string): string {
    this.#length += text.length;
    return text;
  }

  #ownType(schema: Node, position: TypePosition): string {
    const { type } = schema;
    if (Array.isArray(type)) return union(type.map((one) => this.#typed(schema, one, position)));
    if (type !== undefined) return this.#typed(schema, type, position);
    if (isJsonObject(schema.properties)) return this.#object(schema, position);
    return "items" in schema || "prefixItems" in schema ? this.#array(schema, position) : "unknown";
  }

  #typed(schema: Node, type: unknown, position: TypePosition): string {
    if (type === "object") return this.#object(schema, position);
    if (type === "array") return this.#array(schema, position);
    return typeof type === "string" && Object.hasOwn(SCALARS, type) ? (SCALARS[type] ?? "unknown") : "unknown";
  }

  #array(schema: Node, position: TypePosition): string {
    const inside = { ...deeper(position), direct: [] };
    // Before 2020-12, `items` was the list and `additionalItems` the rest.
    const isOld = Array.isArray(schema.items);
    const prefixItems = isOld ? schema.items : schema.prefixItems;
    const items = isOld ? schema.additionalItems : schema.items;
    const rest = items === false ? undefined : this.#type(items, inside);
    if (!Array.isArray(prefixItems)) return rest === undefined ? "[]" : `${this.#readonly}${element(rest)}[]`;
    if (prefixItems.length > MAX_LITERALS) return `${this.#readonly}unknown[]`;
    // An array may be shorter than `prefixItems`, unless it has a least length.
    const least = typeof schema.minItems === "number" ? schema.minItems : 0;
    const first = prefixItems.map((item, index) => `(${this.#type(item, inside)})${index < least ? "" : "?"}`);
    return `${this.#readonly}[${[...first, ...(rest === undefined ? [] : [`...${element(rest)}[]`])].join(", ")}]`;
  }

  #object({ properties, required, additionalProperties, patternProperties }: Node, position: TypePosition): string {
    const indent = `${position.indent}  `;
    const inside = { depth: position.depth + 1, indent, direct: [] };
    const mandatory = new Set<string>(Array.isArray(required) ? required.filter((one) => typeof one === "string") : []);
    const described: Node = isJsonObject(properties) ? properties : {};
    // A property may be required without a schema.
    const names = [...new Set([...Object.keys(described), ...mandatory])];
    const lines: string[] = [];
    for (const name of names) {
      if (this.#isFull) break;
      if (name.length > MAX_LITERAL || !name.isWellFormed()) continue;
      const property = Object.hasOwn(described, name) ? described[name] : {};
      const comment = propertyComment(property, indent);
      this.#length += comment.length + indent.length + name.length;
      const isOptional = !mandatory.has(name);
      const type = this.#type(property, inside);
      const inherited = this.#isWritten && isOptional && INHERITED.has(name) && type !== "unknown" ? " | Function" : "";
      const mark = isOptional ? "?" : "";
      const value = inherited === "" ? type : `${operand(type)}${inherited}`;
      lines.push(`${comment}${indent}${this.#readonly}${propertyKey(name)}${mark}: ${value};`);
    }
    const hasPatterns = isJsonObject(patternProperties) && Object.keys(patternProperties).length > 0;
    if (hasPatterns || lines.length < names.length) {
      lines.push(`${indent}${this.#readonly}[key: string]: unknown;`);
    } else if (additionalProperties !== undefined && additionalProperties !== false) {
      // The type of an index signature must include the types of all named properties.
      const value = names.length === 0 ? this.#type(additionalProperties, inside) : "unknown";
      lines.push(`${indent}${this.#readonly}[key: string]: ${value};`);
    } else if (names.length === 0) {
      lines.push(`${indent}${this.#readonly}[key: string]: ${additionalProperties === false ? "never" : "unknown"};`);
    }
    return `{\n${lines.join("\n")}\n${position.indent}}`;
  }

  #reference(pointer: string, position: TypePosition): string {
    const known = this.#references.get(pointer);
    const pending = this.#pending.get(pointer);
    if (known !== undefined && (pending === undefined || position.direct.length === 0)) {
      if (position.direct.includes(known)) return "unknown";
      if (pointer === "#") this.#isRecursive = true;
      return known;
    }
    const target = pending?.target ?? this.#resolve(pointer);
    if (target === undefined || position.depth >= MAX_DEPTH) return "unknown";
    const name = known ?? this.#names.take(`${this.#prefix}${toTypeName(pointer.split("/").at(-1) ?? "")}`);
    this.#references.set(pointer, name);
    const type = { name, target };
    if (position.direct.length === 0) this.#pending.set(pointer, type);
    else this.#declare(pointer, type, deeper(position));
    return name;
  }

  /** @param position where the type is referred to directly: a type must not refer to itself without an object or array in between */
  #declare(
    pointer: string,
    { name, target }: PendingType,
    { depth, direct }: Pick<TypePosition, "depth" | "direct">,
  ): void {
    this.#pending.delete(pointer);
    const type = this.#type(target, { depth, indent: "", direct: [...direct, name] });
    this.declarations.push(`${toComment(target.description, "")}${this.#export}type ${name} = ${type};`);
  }

  /** Resolves a pointer (RFC 6901) within the document. */
  #resolve(reference: string): Node | undefined {
    if (!reference.startsWith("#/")) return undefined;
    let at: unknown = this.#root;
    for (const part of reference.slice(2).split("/")) {
      const key = decode(part).replaceAll("~1", "/").replaceAll("~0", "~");
      if ((!isJsonObject(at) && !Array.isArray(at)) || !Object.hasOwn(at, key)) return undefined;
      at = (at as Node)[key];
    }
    return isJsonObject(at) ? at : undefined;
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
