// Converts a tool's schema for `strict: true`, if possible. Strict mode supports a subset of JSON Schema (OpenAI: "Structured outputs",
// "Supported schemas", read in 2026). The API rejects a request with one unsupported schema, so doubtful schemas are not sent as strict.

import type { JsonSchema } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject } from "../../sandbox/contract/plain-object.ts";
import { isJsonObject } from "../../sandbox/contract/value-kind.ts";
import { toPointer } from "../json-schema/json-pointer.ts";

/** Limits of the API for the schemas of one request. */
export const STRICT_LIMITS = {
  properties: 5_000,
  /** Arrays count too, although the documentation mentions only objects. */
  depth: 10,
  /** Total length of property and definition names, and of the values of enum and const. */
  chars: 120_000,
  enumValues: 1_000,
  /** Length of one string enum with more than 250 values: 15,000 characters. */
  largeEnum: { values: 250, chars: 15_000 },
} as const;

/** The converted schema, or the reason why strict mode does not support it. */
export type StrictSchema =
  | {
      readonly strict: true;
      readonly schema: JsonSchema;
      /** Whether an optional property was made required and nullable, so that `null` means that it is missing. */
      readonly hasNullables: boolean;
    }
  | { readonly strict: false; readonly reason: string };

/** Annotations without effect that are not in the supported subset. They are removed. */
const DROPPED: ReadonlySet<string> = new Set([
  ...["$schema", "$id", "$comment", "title", "default", "examples", "example", "deprecated", "readOnly", "writeOnly"],
  ...["discriminator", "contentEncoding", "contentMediaType"],
]);
const TYPES: ReadonlySet<string> = new Set(["string", "number", "boolean", "integer", "object", "array", "null"]);
const FORMATS: ReadonlySet<string> = new Set([
  ...["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"],
]);
/** Keywords that are copied unchanged. */
const BOUNDS: ReadonlySet<string> = new Set([
  ...["multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"],
]);
/** Regular expression syntax that may be unsupported: lookaround, backreferences, character classes by property. */
const UNSUPPORTED_PATTERN = /\(\?[=!<]|\\[1-9kpPbB]/;

type Json = { readonly [key: string]: unknown };
type Mutable = { [key: string]: unknown };

class NotStrict extends Error {}

/**
 * Converts a schema to the form that strict mode requires. Constraints that strict mode cannot express (unnamed keys, `oneOf` as `anyOf`)
 * are still checked by the router.
 * @throws {ToolError} PARAM_INVALID unless the schema is a plain object
 * @example
 * ```ts
 * import { toStrictSchema } from "glovebox/openai";
 *
 * const converted = toStrictSchema({ type: "object", properties: { city: { type: "string" } } });
 * console.log(converted.strict && converted.hasNullables); // true
 * ```
 */
export function toStrictSchema(schema: JsonSchema): StrictSchema {
  if (!isPlainObject(schema)) {
    throw new ToolError("PARAM_INVALID", `schema: Expected a JSON Schema object, got ${describeKind(schema)}`);
  }
  const converter = new StrictConverter(schema);
  try {
    const strict = converter.root();
    return { strict: true, schema: strict as JsonSchema, hasNullables: converter.hasNullables };
  } catch (error) {
    if (error instanceof NotStrict) return { strict: false, reason: error.message };
    if (error instanceof RangeError) return { strict: false, reason: "It is nested too deeply" };
    throw error;
  }
}

class StrictConverter {
  hasNullables = false;
  readonly #source: Json;
  readonly #path: (string | number)[] = [];
  #properties = 0;
  #chars = 0;
  #enumValues = 0;

  constructor(source: Json) {
    this.#source = source;
  }

  root(): Mutable {
    const { $defs, definitions, ...rest } = this.#source;
    if (rest.type !== "object") this.#reject("expected an object at the root of the schema");
    for (const keyword of ["anyOf", "oneOf", "allOf", "$ref", "enum", "const"]) {
      if (keyword in rest) this.#reject(`${keyword} is not supported at the root of the schema`);
    }
    const root = this.#schema(rest, 0);
    for (const [keyword, source] of Object.entries({ $defs, definitions })) {
      if (!isJsonObject(source)) continue;
      root[keyword] = this.#at(keyword, () => this.#definitions(source));
    }
    return root;
  }

  #definitions(source: Json): Mutable {
    return mapOf(source, (name, part) => {
      this.#spendChars(name);
      return this.#at(name, () => this.#schema(part, 0));
    });
  }

  #schema(given: unknown, depth: number): Mutable {
    if (!isJsonObject(given)) this.#reject("expected a schema that is an object");
    const source = this.#flatten(given);
    if (depth > STRICT_LIMITS.depth) this.#reject(`it is nested more than ${STRICT_LIMITS.depth} levels deep`);
    if (typeof source.$ref === "string") return this.#reference(source);
    const union = source.anyOf ?? source.oneOf;
    if (union !== undefined) return this.#union(source, union, depth);
    const result: Mutable = {};
    for (const [keyword, value] of Object.entries(source)) {
      if (DROPPED.has(keyword) || isImpliedByFormat(keyword, source)) continue;
      result[keyword] = this.#at(keyword, () => this.#keyword(keyword, value, source, depth));
    }
    result.type ??= this.#typeOfValues(source);
    if (this.#mayBe(result, "object")) this.#closeObject(result, source);
    if (this.#mayBe(result, "array") && result.items === undefined) this.#reject("an array requires items");
    return result;
  }

  /** Replaces an `allOf` of one schema by that schema. */
  #flatten(given: Json): Json {
    const { allOf, ...rest } = given;
    if (!Array.isArray(allOf) || allOf.length !== 1 || !isJsonObject(allOf[0])) return given;
    const ownKeywords = Object.keys(rest).filter((keyword) => !DROPPED.has(keyword) && keyword !== "description");
    return ownKeywords.length === 0 ? { ...allOf[0], ...rest } : given;
  }

  #reference(source: Json): Mutable {
    const { $ref, description } = source;
    const siblings = Object.keys(source).filter((key) => !DROPPED.has(key) && key !== "$ref" && key !== "description");
    if (siblings.length > 0) this.#reject(`${siblings[0]} is not supported next to $ref`);
    if (!/^#($|\/(\$defs|definitions)\/[^/]+$)/.test(String($ref))) {
      this.#reject("a $ref must be # or refer to one of $defs");
    }
    // A $ref must be the only keyword of its schema.
    return description === undefined ? { $ref } : { anyOf: [{ $ref }], description };
  }

  #union(source: Json, union: unknown, depth: number): Mutable {
    const keyword = source.anyOf === undefined ? "oneOf" : "anyOf";
    const siblings = Object.keys(source).filter((key) => !DROPPED.has(key) && key !== keyword && key !== "description");
    // `type` next to a union adds nothing: it is copied into each branch.
    const isPlain = siblings.every((key) => key === "type");
    if (!isPlain) this.#reject(`${siblings.find((key) => key !== "type")} is not supported next to ${keyword}`);
    if (!Array.isArray(union) || union.length === 0) this.#reject(`${keyword} requires a non-empty array`);
    const { type, description } = source;
    const branches = (union as unknown[]).map((branch, index) =>
      this.#at(keyword, () =>
        this.#at(index, () =>
          this.#schema(
            isJsonObject(branch) && type !== undefined && !("$ref" in branch) ? { type, ...branch } : branch,
            depth,
          ),
        ),
      ),
    );
    return { anyOf: branches, ...(description === undefined ? {} : { description }) };
  }

  #keyword(keyword: string, value: unknown, source: Json, depth: number): unknown {
    if (BOUNDS.has(keyword)) {
      // Draft 4 has booleans here.
      if (typeof value !== "number") this.#reject(`${keyword} must be a number`);
      return value;
    }
    switch (keyword) {
      case "description":
        return value;
      case "type":
        return this.#types(value);
      case "enum":
        return this.#enumOf(value);
      case "const":
        return this.#constant(value);
      case "format":
        if (!FORMATS.has(String(value))) this.#reject(`the format ${JSON.stringify(value)} is not supported`);
        return value;
      case "pattern":
        if (UNSUPPORTED_PATTERN.test(String(value))) this.#reject("this pattern is not supported");
        return value;
      case "items":
        return this.#schema(value, depth + 1);
      case "properties":
        return this.#propertiesOf(value, source, depth);
      case "required":
        return value;
      case "additionalProperties":
        if (value !== false) this.#reject("additional properties cannot be allowed");
        return value;
      default:
        return this.#reject(`${keyword.slice(0, 100)} is not supported`);
    }
  }

  #types(value: unknown): unknown {
    const types = [value].flat();
    const unknown = types.find((type) => typeof type !== "string" || !TYPES.has(type));
    if (types.length === 0 || unknown !== undefined) this.#reject("expected a type or a list of types");
    return value;
  }

  #enumOf(value: unknown): unknown {
    if (!Array.isArray(value)) this.#reject("expected a list of values");
    const values = value as unknown[];
    this.#enumValues += values.length;
    if (this.#enumValues > STRICT_LIMITS.enumValues) this.#reject("there are more than 1,000 enum values in total");
    const chars = values.reduce<number>((sum, each) => sum + this.#spendChars(this.#constant(each)), 0);
    const { largeEnum } = STRICT_LIMITS;
    if (values.length > largeEnum.values && chars > largeEnum.chars) {
      this.#reject("an enum of more than 250 values has more than 15,000 characters");
    }
    return values;
  }

  #constant(value: unknown): unknown {
    if (typeof value === "object" && value !== null) this.#reject("expected a string, a number, true, false or null");
    return value;
  }

  #typeOfValues(source: Json): unknown {
    const values = "const" in source ? [source.const] : source.enum;
    if (!Array.isArray(values)) return this.#reject("a schema requires a type");
    const types = new Set(values.map((value) => (value === null ? "null" : typeof value)));
    return types.size === 1 ? [...types][0] : [...types];
  }

  #propertiesOf(value: unknown, source: Json, depth: number): Mutable {
    if (!isJsonObject(value)) return this.#reject("expected an object of schemas");
    const required = new Set(Array.isArray(source.required) ? source.required : []);
    this.#properties += Object.keys(value).length;
    if (this.#properties > STRICT_LIMITS.properties) this.#reject("there are more than 5,000 properties in total");
    return mapOf(value, (name, part) => {
      this.#spendChars(name);
      const result = this.#at(name, () => this.#schema(part, depth + 1));
      if (required.has(name) || this.#allowsNull(result)) return result;
      this.hasNullables = true;
      return orNull(result);
    });
  }

  #closeObject(result: Mutable, source: Json): void {
    if (!isJsonObject(source.properties)) {
      if (source.additionalProperties !== false) this.#reject("an object with unnamed properties cannot be strict");
      result.properties = {};
    }
    const names = Object.keys(result.properties as Json);
    const unnamed = (Array.isArray(source.required) ? source.required : []).find(
      (name) => !names.includes(String(name)),
    );
    if (unnamed !== undefined) this.#reject("a required property is not defined");
    result.required = names;
    result.additionalProperties = false;
  }

  #mayBe({ type }: Mutable, wanted: string): boolean {
    return [type].flat().includes(wanted);
  }

  #allowsNull(result: Mutable): boolean {
    if (result.const === null || (Array.isArray(result.enum) && result.enum.includes(null))) return true;
    if (Array.isArray(result.anyOf)) return result.anyOf.some((branch) => this.#allowsNull(branch as Mutable));
    return result.enum === undefined && result.const === undefined && this.#mayBe(result, "null");
  }

  #spendChars(value: unknown): number {
    const chars = String(value).length;
    this.#chars += chars;
    if (this.#chars > STRICT_LIMITS.chars) this.#reject("names and values have more than 120,000 characters in total");
    return chars;
  }

  #at<Result>(step: string | number, make: () => Result): Result {
    this.#path.push(step);
    const result = make();
    this.#path.pop();
    return result;
  }

  #reject(reason: string): never {
    const where = this.#path.length === 0 ? "" : `${toPointer(this.#path).slice(0, 200)}: `;
    throw new NotStrict(`${where}${reason}`);
  }
}

/** Returns whether a pattern can be dropped because the format next to it means the same, as in generated schemas. */
const isImpliedByFormat = (keyword: string, { format, pattern }: Json): boolean =>
  keyword === "pattern" && FORMATS.has(String(format)) && UNSUPPORTED_PATTERN.test(String(pattern));

function mapOf(members: Json, make: (name: string, part: unknown) => unknown): Mutable {
  return Object.fromEntries(Object.entries(members).map(([name, part]) => [name, make(name, part)]));
}

function orNull(result: Mutable): Mutable {
  const { description, ...rest } = result;
  const described = description === undefined ? {} : { description };
  if (Array.isArray(rest.anyOf)) return { ...rest, anyOf: [...rest.anyOf, { type: "null" }], ...described };
  const isPlain = rest.type !== undefined && rest.const === undefined && rest.$ref === undefined;
  if (!isPlain) return { anyOf: [rest, { type: "null" }], ...described };
  const values = Array.isArray(rest.enum) ? { enum: [...rest.enum, null] } : {};
  return { ...rest, type: [rest.type, "null"].flat(), ...values, ...described };
}
