// Serializes a tool's result to JSON text and bytes, or describes why and where it is not JSON.
import { type PackedBytes, toTextWithBytes } from "./bytes-text.ts";
import { toGuestError } from "./error-text.ts";
import { escapePointer } from "./json-pointer.ts";
import {
  ArrayIsArray,
  ObjectKeys,
  ObjectPrototypeToString,
  SetConstructor,
  SetPrototypeAdd,
  SetPrototypeDelete,
  SetPrototypeHas,
  TypedArrayPrototypeGetLength,
  WeakMapConstructor,
  WeakMapPrototypeGet,
  WeakMapPrototypeSet,
} from "./primordials.ts";

/** Result of the serialization. All fields are own properties, because a tool may have added fields to Object.prototype. */
export type Serialized =
  | { readonly text: string; readonly bytes: PackedBytes | undefined; readonly problem: undefined }
  | { readonly text: undefined; readonly bytes: undefined; readonly problem: string };

const reject = (why: string): Serialized => ({
  text: undefined,
  bytes: undefined,
  problem: `Expected a JSON value, got ${why}`,
});

/** Returns the size that counts towards `outputBytes`: UTF-16 code units of the text plus the attached bytes. */
export const sizeOf = (text: string, bytes: PackedBytes | undefined): number =>
  text.length + (bytes === undefined ? 0 : TypedArrayPrototypeGetLength(bytes.data));

/** Values of the Python runtime that are not JSON, with their descriptions. */
const described = new WeakMapConstructor<object, string>();

/** Returns a value that is rejected with this description of it. */
export function toRejected(why: string): object {
  const value = {};
  WeakMapPrototypeSet(described, value, why);
  return value;
}

const NOT_JSON: { readonly [type: string]: string } = {
  __proto__: null as never,
  function: "a function",
  symbol: "a symbol",
  bigint: "a BigInt",
};

/** Maximum number of values that the search below visits. It only improves a message, and an untrusted value must not make it slow. */
const MAX_VISITS = 10_000;

/** Finds the value that JSON.stringify has rejected: a BigInt or a cycle. */
function findUnserializable(root: unknown): string | undefined {
  const path = new SetConstructor<object>();
  let visits = 0;
  const visit = (value: unknown, pointer: string): string | undefined => {
    visits += 1;
    if (typeof value === "bigint") return `a BigInt at ${pointer === "" ? "the top" : pointer}`;
    if (typeof value !== "object" || value === null || visits > MAX_VISITS) return undefined;
    if (SetPrototypeHas(path, value)) return `a cycle at ${pointer}`;
    SetPrototypeAdd(path, value);
    const keys = ObjectKeys(value);
    for (let index = 0; index < keys.length; index += 1) {
      const key = keys[index] as string;
      const found = visit((value as Record<string, unknown>)[key], `${pointer}/${escapePointer(key)}`);
      if (found !== undefined) return found;
    }
    SetPrototypeDelete(path, value);
    return undefined;
  };
  try {
    return visit(root, "");
  } catch {
    return undefined;
  }
}

/** Like `Array.isArray`, which throws for a revoked proxy. */
function isArray(value: unknown): boolean {
  try {
    return ArrayIsArray(value);
  } catch {
    return false;
  }
}

/** Serializes a value to JSON and bytes. `undefined` becomes `null`. */
export function serialize(value: unknown): Serialized {
  if (value === undefined) return { text: "null", bytes: undefined, problem: undefined };
  const notJson = NOT_JSON[typeof value];
  if (notJson !== undefined) return reject(notJson);
  const why = typeof value === "object" && value !== null ? WeakMapPrototypeGet(described, value) : undefined;
  if (why !== undefined) return reject(why);
  try {
    const tag = ObjectPrototypeToString(value);
    if (tag === "[object Generator]" || tag === "[object AsyncGenerator]") return reject("a generator");
    const { text, bytes } = toTextWithBytes(value);
    if (text !== undefined) return { text, bytes, problem: undefined };
    return reject("an object whose toJSON() returned no JSON value");
  } catch (thrown) {
    const kind = isArray(value) ? "an array" : "an object";
    const found = findUnserializable(value);
    if (found !== undefined) return reject(`${kind} with ${found}`);
    return reject(`${kind} that cannot be converted: ${toGuestError(thrown).message}`);
  }
}
