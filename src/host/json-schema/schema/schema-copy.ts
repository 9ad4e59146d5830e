// Copies an untrusted schema as plain JSON, and measures it meanwhile. The caller cannot change the copy later.
import { describeKind, isPlainObject } from "../../../sandbox/contract/plain-object.ts";
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { describeValue } from "../describe.ts";
import { escapeStep } from "../json-pointer.ts";
import type { RejectSchema } from "./schema-error.ts";

/** Limits of one schema. Real schemas of tools stay far below them: 10 KiB is large, and 30 levels are deep. */
export const SCHEMA_LIMITS = {
  /** Length of the JSON in UTF-8 without whitespace. */
  bytes: 256 * 1024,
  /** JSON levels. A nested object schema takes two ("properties", then its name). */
  depth: 128,
  /** JSON values, without names. Compiling that many small schemas takes 0.1-0.2 s. */
  nodes: 10_000,
} as const;

export type SchemaObject = { readonly [keyword: string]: unknown };
export type Schema = boolean | SchemaObject;

/** Returns the value of an own keyword. Inherited properties such as `constructor` are ignored. */
export function ownProperty(schema: SchemaObject, keyword: string): unknown {
  return Object.hasOwn(schema, keyword) ? schema[keyword] : undefined;
}

/** @throws {ToolError} when the value is not a schema, is not JSON, or exceeds {@link SCHEMA_LIMITS} */
export function copySchema(schema: unknown, reject: RejectSchema): Schema {
  if (typeof schema !== "boolean" && !isJsonObject(schema))
    return reject("", "an object or a boolean", describeValue(schema));
  return new Copier(reject).copy(schema, "", 0) as Schema;
}

class Copier {
  #bytes = 0;
  #nodes = 0;
  readonly #reject: RejectSchema;

  constructor(reject: RejectSchema) {
    this.#reject = reject;
  }

  copy(value: unknown, pointer: string, depth: number): unknown {
    if (depth > SCHEMA_LIMITS.depth) this.#reject("", `at most ${SCHEMA_LIMITS.depth} levels`, "more");
    this.#nodes += 1;
    if (this.#nodes > SCHEMA_LIMITS.nodes) this.#reject("", `at most ${SCHEMA_LIMITS.nodes} values`, "more");
    if (Array.isArray(value)) {
      this.#count(2 + value.length, pointer);
      return Array.from(value, (item, index) => this.copy(item, `${pointer}/${index}`, depth + 1));
    }
    if (isPlainObject(value)) return this.#copyObject(value, pointer, depth);
    // A schema of a library or a promise has no own keywords, and would accept every value.
    if (isJsonObject(value)) return this.#reject(pointer, "a plain object", describeKind(value));
    return this.#copyScalar(value, pointer);
  }

  /** The copy has no prototype, so that `__proto__` is an ordinary name. */
  #copyObject(value: SchemaObject, pointer: string, depth: number): SchemaObject {
    const copy: Record<string, unknown> = Object.create(null);
    this.#count(2, pointer);
    for (const key of Object.keys(value)) {
      const member = value[key];
      // Skips undefined, as JSON.stringify does, since schema generators leave such members.
      if (member === undefined) continue;
      this.#count(4 + Buffer.byteLength(key), pointer);
      copy[key] = this.copy(member, `${pointer}/${escapeStep(key)}`, depth + 1);
    }
    return copy;
  }

  #copyScalar(value: unknown, pointer: string): unknown {
    if (typeof value === "string") {
      this.#count(2 + Buffer.byteLength(value), pointer);
      return value;
    }
    if (value === null || typeof value === "boolean" || (typeof value === "number" && Number.isFinite(value))) {
      this.#count(String(value).length, pointer);
      return value;
    }
    return this.#reject(pointer, "a JSON value", typeof value === "number" ? String(value) : typeof value);
  }

  #count(bytes: number, pointer: string): void {
    this.#bytes += bytes;
    if (this.#bytes > SCHEMA_LIMITS.bytes) {
      this.#reject(
        "",
        `at most ${SCHEMA_LIMITS.bytes} bytes`,
        `more, exceeded at ${pointer.slice(0, 100) || "the root"}`,
      );
    }
  }
}
