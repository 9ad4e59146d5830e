// Whether a tool's schema can be sent with `strict: true`, and what it is then: OpenAI's documented subset of JSON Schema ("Structured
// outputs", "Supported schemas", read in 2026). A request with one schema outside of it is refused as a whole, so doubt means no.

import type { JsonSchema } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject } from "../../sandbox/contract/plain-object.ts";
import { toPointer } from "../json-schema/json-pointer.ts";
import { isObject } from "../json-schema/schema-copy.ts";

export const STRICT_LIMITS = {
  properties: 5_000,
  /** Arrays are counted too, though the documentation speaks of objects only. */
  depth: 10,
  /** Names of properties and definitions, values of enum and const. */
  chars: 120_000,
  enumValues: 1_000,
  /** In one enum of text with more than 250 values: 15,000 characters. */
  largeEnum: { values: 250, chars: 15_000 },
} as const;

export type StrictSchema =
  | {
      readonly strict: true;
      readonly schema: JsonSchema;
      /** Whether an optional property was made required and nullable: a `null` for it says that it is not there. */
      readonly hasNullables: boolean;
    }
  | { readonly strict: false; readonly reason: string };

/** Looked at by nobody on the wire, and not in the documented subset. */
const DROPPED: ReadonlySet<string> = new Set([
  ...["$schema", "$id", "$comment", "title", "default", "examples", "example", "deprecated", "readOnly", "writeOnly"],
  ...["discriminator", "contentEncoding", "contentMediaType"],
]);
const TYPES: ReadonlySet<string> = new Set(["string", "number", "boolean", "integer", "object", "array", "null"]);
const FORMATS: ReadonlySet<string> = new Set([
  ...["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"],
]);
/** Kept as they are, where they stand. */
const BOUNDS: ReadonlySet<string> = new Set([
  ...["multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"],
]);
/** A regular expression that the decoder is not known to take: looking around, referring back, classes by property. */
const HARD_PATTERN = /\(\?[=!<]|\\[1-9kpPbB]/;

type Json = { readonly [key: string]: unknown };
type Mutable = { [key: string]: unknown };

class NotStrict extends Error {}

/**
 * The schema as strict mode demands it. What it gives up of the given one (keys that a schema leaves unsaid, `oneOf` for `anyOf`) the
 * router checks as ever.
 * @throws {ToolError} PARAM_INVALID for anything but a plain object
 */
export function toStrictSchema(schema: JsonSchema): StrictSchema {
  if (!isPlainObject(schema)) {
    throw new ToolError("PARAM_INVALID", `schema: Expected a JSON Schema object, got ${describeKind(schema)}`);
  }
  const rewriting = new Rewriting(schema);
  try {
    const strict = rewriting.root();
    return { strict: true, schema: strict as JsonSchema, hasNullables: rewriting.hasNullables };
  } catch (error) {
    if (error instanceof NotStrict) return { strict: false, reason: error.message };
    if (error instanceof RangeError) return { strict: false, reason: "It is nested too deep" };
    throw error;
  }
}

class Rewriting {
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
    if (rest.type !== "object") this.#refuse("expected an object at the root of the schema");
    for (const keyword of ["anyOf", "oneOf", "allOf", "$ref", "enum", "const"]) {
      if (keyword in rest) this.#refuse(`${keyword} is not supported at the root of the schema`);
    }
    const root = this.#schema(rest, 0);
    for (const [keyword, stated] of Object.entries({ $defs, definitions })) {
      if (!isObject(stated)) continue;
      root[keyword] = this.#at(keyword, () => this.#definitions(stated));
    }
    return root;
  }

  #definitions(stated: Json): Mutable {
    return mapOf(stated, (name, part) => {
      this.#spendChars(name);
      return this.#at(name, () => this.#schema(part, 0));
    });
  }

  #schema(given: unknown, depth: number): Mutable {
    if (!isObject(given)) this.#refuse("expected a schema that is an object");
    const stated = this.#flatten(given);
    if (depth > STRICT_LIMITS.depth) this.#refuse(`it is nested more than ${STRICT_LIMITS.depth} deep`);
    if (typeof stated.$ref === "string") return this.#reference(stated);
    const union = stated.anyOf ?? stated.oneOf;
    if (union !== undefined) return this.#union(stated, union, depth);
    const made: Mutable = {};
    for (const [keyword, value] of Object.entries(stated)) {
      if (DROPPED.has(keyword) || isSaidByFormat(keyword, stated)) continue;
      made[keyword] = this.#at(keyword, () => this.#keyword(keyword, value, stated, depth));
    }
    made.type ??= this.#typeOfValues(stated);
    if (this.#mayBe(made, "object")) this.#closeObject(made, stated);
    if (this.#mayBe(made, "array") && made.items === undefined) this.#refuse("an array needs items");
    return made;
  }

  /** A schema of one part is that part. */
  #flatten(given: Json): Json {
    const { allOf, ...rest } = given;
    if (!Array.isArray(allOf) || allOf.length !== 1 || !isObject(allOf[0])) return given;
    const said = Object.keys(rest).filter((keyword) => !DROPPED.has(keyword) && keyword !== "description");
    return said.length === 0 ? { ...allOf[0], ...rest } : given;
  }

  #reference(stated: Json): Mutable {
    const { $ref, description } = stated;
    const beside = Object.keys(stated).filter((key) => !DROPPED.has(key) && key !== "$ref" && key !== "description");
    if (beside.length > 0) this.#refuse(`${beside[0]} is not supported beside $ref`);
    if (!/^#($|\/(\$defs|definitions)\/[^/]+$)/.test(String($ref))) {
      this.#refuse("a $ref must be # or lead to one of $defs");
    }
    // Nothing may stand beside it.
    return description === undefined ? { $ref } : { anyOf: [{ $ref }], description };
  }

  #union(stated: Json, union: unknown, depth: number): Mutable {
    const keyword = stated.anyOf === undefined ? "oneOf" : "anyOf";
    const beside = Object.keys(stated).filter((key) => !DROPPED.has(key) && key !== keyword && key !== "description");
    // `type` beside a union says nothing that its branches do not say.
    const isPlain = beside.every((key) => key === "type");
    if (!isPlain) this.#refuse(`${beside.find((key) => key !== "type")} is not supported beside ${keyword}`);
    if (!Array.isArray(union) || union.length === 0) this.#refuse(`${keyword} needs branches`);
    const { type, description } = stated;
    const branches = (union as unknown[]).map((branch, index) =>
      this.#at(keyword, () =>
        this.#at(index, () =>
          this.#schema(
            isObject(branch) && type !== undefined && !("$ref" in branch) ? { type, ...branch } : branch,
            depth,
          ),
        ),
      ),
    );
    return { anyOf: branches, ...(description === undefined ? {} : { description }) };
  }

  #keyword(keyword: string, value: unknown, stated: Json, depth: number): unknown {
    if (BOUNDS.has(keyword)) {
      // Draft 4 has true and false here.
      if (typeof value !== "number") this.#refuse(`${keyword} must be a number`);
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
        if (!FORMATS.has(String(value))) this.#refuse(`the format ${JSON.stringify(value)} is not supported`);
        return value;
      case "pattern":
        if (HARD_PATTERN.test(String(value))) this.#refuse("this pattern is not supported");
        return value;
      case "items":
        return this.#schema(value, depth + 1);
      case "properties":
        return this.#propertiesOf(value, stated, depth);
      case "required":
        return value;
      case "additionalProperties":
        if (value !== false) this.#refuse("keys that are not named cannot be allowed");
        return value;
      default:
        return this.#refuse(`${keyword.slice(0, 100)} is not supported`);
    }
  }

  #types(value: unknown): unknown {
    const types = [value].flat();
    const unknown = types.find((type) => typeof type !== "string" || !TYPES.has(type));
    if (types.length === 0 || unknown !== undefined) this.#refuse("expected a type, or a list of them");
    return value;
  }

  #enumOf(value: unknown): unknown {
    if (!Array.isArray(value)) this.#refuse("expected a list of values");
    const values = value as unknown[];
    this.#enumValues += values.length;
    if (this.#enumValues > STRICT_LIMITS.enumValues) this.#refuse("there are more than 1,000 enum values in all");
    const chars = values.reduce<number>((sum, each) => sum + this.#spendChars(this.#constant(each)), 0);
    const { largeEnum } = STRICT_LIMITS;
    if (values.length > largeEnum.values && chars > largeEnum.chars) {
      this.#refuse("an enum of more than 250 values has more than 15,000 characters");
    }
    return values;
  }

  #constant(value: unknown): unknown {
    if (typeof value === "object" && value !== null) this.#refuse("expected text, a number, true, false or null");
    return value;
  }

  #typeOfValues(stated: Json): unknown {
    const values = "const" in stated ? [stated.const] : stated.enum;
    if (!Array.isArray(values)) return this.#refuse("a schema needs a type");
    const types = new Set(values.map((value) => (value === null ? "null" : typeof value)));
    return types.size === 1 ? [...types][0] : [...types];
  }

  #propertiesOf(value: unknown, stated: Json, depth: number): Mutable {
    if (!isObject(value)) return this.#refuse("expected an object of schemas");
    const required = new Set(Array.isArray(stated.required) ? stated.required : []);
    this.#properties += Object.keys(value).length;
    if (this.#properties > STRICT_LIMITS.properties) this.#refuse("there are more than 5,000 properties in all");
    return mapOf(value, (name, part) => {
      this.#spendChars(name);
      const made = this.#at(name, () => this.#schema(part, depth + 1));
      if (required.has(name) || this.#allowsNull(made)) return made;
      this.hasNullables = true;
      return orNull(made);
    });
  }

  #closeObject(made: Mutable, stated: Json): void {
    if (!isObject(stated.properties)) {
      if (stated.additionalProperties !== false) this.#refuse("an object whose keys are not named cannot be strict");
      made.properties = {};
    }
    const names = Object.keys(made.properties as Json);
    const unnamed = (Array.isArray(stated.required) ? stated.required : []).find(
      (name) => !names.includes(String(name)),
    );
    if (unnamed !== undefined) this.#refuse("a required key is not among the properties");
    made.required = names;
    made.additionalProperties = false;
  }

  #mayBe({ type }: Mutable, wanted: string): boolean {
    return [type].flat().includes(wanted);
  }

  #allowsNull(made: Mutable): boolean {
    if (made.const === null || (Array.isArray(made.enum) && made.enum.includes(null))) return true;
    if (Array.isArray(made.anyOf)) return made.anyOf.some((branch) => this.#allowsNull(branch as Mutable));
    return made.enum === undefined && made.const === undefined && this.#mayBe(made, "null");
  }

  #spendChars(value: unknown): number {
    const chars = String(value).length;
    this.#chars += chars;
    if (this.#chars > STRICT_LIMITS.chars) this.#refuse("names and values have more than 120,000 characters in all");
    return chars;
  }

  #at<Result>(step: string | number, make: () => Result): Result {
    this.#path.push(step);
    const made = make();
    this.#path.pop();
    return made;
  }

  #refuse(reason: string): never {
    const where = this.#path.length === 0 ? "" : `${toPointer(this.#path).slice(0, 200)}: `;
    throw new NotStrict(`${where}${reason}`);
  }
}

/** A generator's pattern beside a format says the same in other words. */
const isSaidByFormat = (keyword: string, { format, pattern }: Json): boolean =>
  keyword === "pattern" && FORMATS.has(String(format)) && HARD_PATTERN.test(String(pattern));

function mapOf(members: Json, make: (name: string, part: unknown) => unknown): Mutable {
  return Object.fromEntries(Object.entries(members).map(([name, part]) => [name, make(name, part)]));
}

function orNull(made: Mutable): Mutable {
  const { description, ...rest } = made;
  const described = description === undefined ? {} : { description };
  if (Array.isArray(rest.anyOf)) return { ...rest, anyOf: [...rest.anyOf, { type: "null" }], ...described };
  const isPlain = rest.type !== undefined && rest.const === undefined && rest.$ref === undefined;
  if (!isPlain) return { anyOf: [rest, { type: "null" }], ...described };
  const values = Array.isArray(rest.enum) ? { enum: [...rest.enum, null] } : {};
  return { ...rest, type: [rest.type, "null"].flat(), ...values, ...described };
}
