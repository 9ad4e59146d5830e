// Converts the details of a hook's rejection to plain JSON. Values that are not JSON or exceed the limits are dropped: a rejection with
// invalid details still rejects.
import { types } from "node:util";
import type { ErrorDetails, JsonValue } from "../../../sandbox/contract/errors.ts";
import { isPlainObject } from "../../../sandbox/contract/plain-object.ts";
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { PROTO } from "../../json/proto-key.ts";
import { ignoreOutcome } from "../../util/host-callback.ts";

/** Longest text, in UTF-16 code units. A longer text is truncated. */
export const MAX_TEXT_LENGTH = 10_000;
/** Total length of all keys and texts of one rejection, in UTF-16 code units. */
const MAX_TOTAL_LENGTH = 64 * 1024;
const MAX_VALUES = 1_000;
const MAX_DEPTH = 16;

/** Truncates a text to {@link MAX_TEXT_LENGTH} and replaces lone surrogates. */
export function toBoundedText(text: string): string {
  if (text.length <= MAX_TEXT_LENGTH) return text.toWellFormed();
  const head = text.slice(0, MAX_TEXT_LENGTH - 1).replace(/[\uD800-\uDBFF]$/, "");
  return `${head.toWellFormed()}…`;
}

/** Returns a JSON copy of details; undefined for a value that is not a plain object. Never throws. */
export function toJsonDetails(details: unknown): ErrorDetails | undefined {
  const copy = new DetailsCopier().copy(details, 0);
  return isJsonObject(copy) ? (copy as ErrorDetails) : undefined;
}

class DetailsCopier {
  readonly #path = new Set<object>();
  #remainingValues = MAX_VALUES;
  #remainingLength = MAX_TOTAL_LENGTH;

  /** Returns undefined for a value that is dropped. */
  copy(value: unknown, depth: number): JsonValue | undefined {
    if (this.#remainingValues <= 0) return undefined;
    this.#remainingValues -= 1;
    switch (typeof value) {
      case "boolean":
        return value;
      case "number":
        return Number.isFinite(value) ? value : undefined;
      case "string":
        return this.#text(value);
      case "object":
        return value === null ? null : this.#object(value, depth);
      default:
        return undefined;
    }
  }

  #text(text: string): string | undefined {
    const bounded = toBoundedText(text);
    this.#remainingLength -= bounded.length;
    return this.#remainingLength < 0 ? undefined : bounded;
  }

  #object(value: object, depth: number): JsonValue | undefined {
    if (depth >= MAX_DEPTH || this.#path.has(value)) return undefined;
    this.#path.add(value);
    try {
      if (Array.isArray(value)) return this.#array(value, depth);
      if (isPlainObject(value)) return this.#fields(value, depth);
      // An unhandled rejection of a promise among the details would end the process.
      if (types.isPromise(value)) ignoreOutcome(() => value);
      return undefined;
    } catch {
      // A proxy that throws or is revoked.
      return undefined;
    } finally {
      this.#path.delete(value);
    }
  }

  /** Keeps the index of each element: a dropped element becomes null, as in JSON. */
  #array(items: readonly unknown[], depth: number): JsonValue[] {
    const copied: JsonValue[] = [];
    for (let index = 0; index < items.length && this.#remainingValues > 0; index += 1) {
      copied.push(this.copy(items[index], depth + 1) ?? null);
    }
    return copied;
  }

  #fields(fields: Readonly<Record<string, unknown>>, depth: number): JsonValue {
    const copied: { [key: string]: JsonValue } = {};
    for (const key of Object.keys(fields)) {
      if (this.#remainingValues <= 0) break;
      this.#remainingLength -= key.length;
      if (key === PROTO || this.#remainingLength < 0) continue;
      const value = this.copy(readField(fields, key), depth + 1);
      if (value !== undefined) copied[key.toWellFormed()] = value;
    }
    return copied;
  }
}

/** Returns undefined if the getter throws. */
export function readField(value: unknown, key: string): unknown {
  try {
    return (value as Readonly<Record<string, unknown>>)[key];
  } catch {
    return undefined;
  }
}
