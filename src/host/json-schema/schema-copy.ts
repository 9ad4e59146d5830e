// A private copy of a foreign schema: plain JSON, measured while it is copied, so nothing the caller keeps can change it later.
import { describeKind, isPlainObject } from "../../sandbox/contract/plain-object.ts";
import { describeValue } from "./describe.ts";
import { escapeStep } from "./json-pointer.ts";
import type { RefuseSchema } from "./schema-error.ts";

/** Bounds of one schema. Real tool schemas stay far below: 10 KiB is large, 30 levels deep. */
export const SCHEMA_LIMITS = {
  /** UTF-8 JSON, counted without whitespace; commas and colons included. */
  bytes: 256 * 1024,
  /** JSON levels; an object nested in an object takes two ("properties", then its name). */
  depth: 128,
  /** JSON values, names not counted. As many small schemas take 0.1-0.2 s to make ready, once. */
  nodes: 10_000,
} as const;

export type SchemaObject = { readonly [keyword: string]: unknown };
export type Schema = boolean | SchemaObject;

export function isObject(value: unknown): value is SchemaObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value of an own keyword; a schema may well own `constructor`, and never inherits it. */
export function ownProperty(schema: SchemaObject, keyword: string): unknown {
  return Object.hasOwn(schema, keyword) ? schema[keyword] : undefined;
}

/** @throws {ToolError} when it is no schema, not JSON, or past {@link SCHEMA_LIMITS} */
export function copySchema(schema: unknown, refuse: RefuseSchema): Schema {
  if (typeof schema !== "boolean" && !isObject(schema))
    return refuse("", "an object or a boolean", describeValue(schema));
  return new Copier(refuse).copy(schema, "", 0) as Schema;
}

class Copier {
  #bytes = 0;
  #nodes = 0;
  readonly #refuse: RefuseSchema;

  constructor(refuse: RefuseSchema) {
    this.#refuse = refuse;
  }

  copy(value: unknown, pointer: string, depth: number): unknown {
    if (depth > SCHEMA_LIMITS.depth) this.#refuse("", `at most ${SCHEMA_LIMITS.depth} levels`, "more");
    this.#nodes += 1;
    if (this.#nodes > SCHEMA_LIMITS.nodes) this.#refuse("", `at most ${SCHEMA_LIMITS.nodes} values`, "more");
    if (Array.isArray(value)) {
      this.#count(2 + value.length, pointer);
      return Array.from(value, (item, index) => this.copy(item, `${pointer}/${index}`, depth + 1));
    }
    if (isPlainObject(value)) return this.#copyObject(value, pointer, depth);
    // A library's schema or a promise has no keywords of its own, and would accept every value.
    if (isObject(value)) return this.#refuse(pointer, "a plain object", describeKind(value));
    return this.#copyScalar(value, pointer);
  }

  /** Without a prototype, so `__proto__` is a name like any other. */
  #copyObject(value: SchemaObject, pointer: string, depth: number): SchemaObject {
    const copy: Record<string, unknown> = Object.create(null);
    this.#count(2, pointer);
    for (const key of Object.keys(value)) {
      const member = value[key];
      // As JSON.stringify does: generators leave such holes.
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
    return this.#refuse(pointer, "a JSON value", typeof value === "number" ? String(value) : typeof value);
  }

  #count(bytes: number, pointer: string): void {
    this.#bytes += bytes;
    if (this.#bytes > SCHEMA_LIMITS.bytes) {
      this.#refuse(
        "",
        `at most ${SCHEMA_LIMITS.bytes} bytes`,
        `more, passed at ${pointer.slice(0, 100) || "the root"}`,
      );
    }
  }
}
