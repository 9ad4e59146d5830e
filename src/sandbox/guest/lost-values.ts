// Warns about values that JSON turns into {} without an error: a promise that was not awaited, a Map, a Set, an Error.
import { callState } from "./call-state.ts";
import { escapePointer } from "./json-pointer.ts";
import { writeLog } from "./log-lines.ts";
import {
  ArrayIsArray,
  ObjectKeys,
  ObjectPrototypeToString,
  ReflectGetOwnPropertyDescriptor,
  StringConstructor,
  StringPrototypeIndexOf,
  TypedArrayPrototypeGetTag,
} from "./primordials.ts";

/** Values that JSON loses, with what to write instead. */
const LOST: { readonly [tag: string]: readonly [kind: string, instead: string] } = {
  __proto__: null as never,
  "[object Promise]": ["a promise", "await it"],
  "[object Map]": ["a Map", "use Object.fromEntries(map)"],
  "[object Set]": ["a Set", "use [...set]"],
  "[object Error]": ["an Error", "use its message"],
};

/** Maximum number of values that the search visits, about 0.2 ms: it only warns, and must not make a call slow. */
const MAX_VISITS = 200;

interface Lost {
  readonly kind: string;
  readonly instead: string;
  /** Completed on the way back to the root, so that only the path of a found value is formed. */
  pointer: string;
}

/** Reads an own property that is not a getter, because calling a getter again could have effects. */
const readOwn = (value: object, key: string | number): unknown => ReflectGetOwnPropertyDescriptor(value, key)?.value;

/** Whether JSON does not have the properties of an object: bytes, which are attached, and objects with their own `toJSON`. */
function hasOtherForm(value: object): boolean {
  return TypedArrayPrototypeGetTag(value) !== undefined || typeof (value as { toJSON?: unknown }).toJSON === "function";
}

function findLost(root: unknown): Lost | undefined {
  let visits = 0;
  const visit = (value: unknown): Lost | undefined => {
    visits += 1;
    if (typeof value !== "object" || value === null || visits > MAX_VISITS || hasOtherForm(value)) return undefined;
    // The keys of an array are not listed: a string for each element could take more memory than the array.
    const keys = ArrayIsArray(value) ? undefined : ObjectKeys(value);
    const length = keys?.length ?? (value as unknown[]).length;
    if (length === 0) {
      const lost = LOST[ObjectPrototypeToString(value)];
      return lost === undefined ? undefined : { kind: lost[0], instead: lost[1], pointer: "" };
    }
    for (let index = 0; index < length && visits <= MAX_VISITS; index += 1) {
      const key = keys?.[index] ?? index;
      const found = visit(readOwn(value, key));
      if (found === undefined) continue;
      found.pointer = `/${escapePointer(StringConstructor(key))}${found.pointer}`;
      return found;
    }
    return undefined;
  };
  try {
    return visit(root);
  } catch {
    // A proxy of the tool throws, or the value is nested too deeply.
    return undefined;
  }
}

/**
 * Writes a warning to the tool's log if a value has lost something on its way to JSON. A call writes at most one.
 * @param what names the value in the warning
 * @param text the value as JSON. Values are only searched if it contains `{}`
 */
export function warnAboutLost(what: string, value: unknown, text: string): void {
  if (StringPrototypeIndexOf(text, "{}") < 0 || callState.hasWarnedOfLoss) return;
  const lost = findLost(value);
  if (lost === undefined) return;
  callState.hasWarnedOfLoss = true;
  const where = lost.pointer === "" ? "" : ` at ${lost.pointer}`;
  writeLog("warn", `${what} has ${lost.kind}${where}, which JSON turns into {}: ${lost.instead}`);
}
