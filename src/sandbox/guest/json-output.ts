// A tool's result as JSON text, or what about it is not JSON and where.
import { type PackedBytes, toTextWithBytes } from "./bytes-text.ts";
import { toGuestError } from "./error-text.ts";
import {
  ArrayIsArray,
  ObjectKeys,
  ObjectPrototypeToString,
  SetConstructor,
  SetPrototypeAdd,
  SetPrototypeDelete,
  SetPrototypeHas,
  TypedArrayPrototypeGetLength,
} from "./primordials.ts";

/** All are own properties, so that nothing is read off a prototype. */
export type Serialized =
  | { readonly text: string; readonly bytes: PackedBytes | undefined; readonly problem: undefined }
  | { readonly text: undefined; readonly bytes: undefined; readonly problem: string };

const refuse = (why: string): Serialized => ({
  text: undefined,
  bytes: undefined,
  problem: `Expected a JSON value, got ${why}`,
});

/** What counts against `outputBytes`: UTF-16 units of the text, and the bytes beside it. */
export const sizeOf = (text: string, bytes: PackedBytes | undefined): number =>
  text.length + (bytes === undefined ? 0 : TypedArrayPrototypeGetLength(bytes.data));

const NOT_JSON: { readonly [type: string]: string } = {
  __proto__: null as never,
  function: "a function",
  symbol: "a symbol",
  bigint: "a BigInt",
};

/** Steps of the search below: it only makes a message better, and a hostile value must not make it long. */
const MAX_VISITS = 10_000;

/** Where in a value JSON.stringify must have stopped: a BigInt or a cycle. */
function findProblem(root: unknown): string | undefined {
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
      const found = visit((value as Record<string, unknown>)[key], `${pointer}/${key}`);
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

/** `Array.isArray` throws for a revoked proxy. */
function isArray(value: unknown): boolean {
  try {
    return ArrayIsArray(value);
  } catch {
    return false;
  }
}

/** What a tool returned, as JSON and bytes. Nothing (`undefined`) becomes `null`. */
export function serialize(value: unknown): Serialized {
  if (value === undefined) return { text: "null", bytes: undefined, problem: undefined };
  const kind = NOT_JSON[typeof value];
  if (kind !== undefined) return refuse(kind);
  try {
    const tag = ObjectPrototypeToString(value);
    if (tag === "[object Generator]" || tag === "[object AsyncGenerator]") return refuse("a generator");
    const { text, bytes } = toTextWithBytes(value);
    if (text !== undefined) return { text, bytes, problem: undefined };
    return refuse("an object whose toJSON() returned none");
  } catch (thrown) {
    const why = findProblem(value) ?? toGuestError(thrown).message;
    return refuse(`${isArray(value) ? "an array" : "an object"} with ${why}`);
  }
}
