// Warns about values that JSON turns into {} without an error: a promise that was not awaited, a Map, a Set, an Error.
import { callState } from "./call-state.ts";
import { escapePointer } from "./json-pointer.ts";
import { writeLog } from "./log-lines.ts";
import {
  ObjectKeys,
  ObjectPrototypeToString,
  ReflectGetOwnPropertyDescriptor,
  StringPrototypeIndexOf,
} from "./primordials.ts";

/** Values that JSON loses, with what to write instead. */
const LOST: { readonly [tag: string]: readonly [kind: string, instead: string] } = {
  __proto__: null as never,
  "[object Promise]": ["a promise", "await it"],
  "[object Map]": ["a Map", "use Object.fromEntries(map)"],
  "[object Set]": ["a Set", "use [...set]"],
  "[object Error]": ["an Error", "use its message"],
};

/** Maximum number of values that the search visits, about 0.1 ms: it only warns, and must not make a call slow. */
const MAX_VISITS = 200;

interface Lost {
  readonly kind: string;
  readonly instead: string;
  /** Completed on the way back to the root, so that only the path of a found value is formed. */
  pointer: string;
}

/** Reads an own property that is not a getter, because calling a getter again could have effects. */
const readOwn = (value: object, key: string): unknown => ReflectGetOwnPropertyDescriptor(value, key)?.value;

function findLost(root: unknown): Lost | undefined {
  let visits = 0;
  const visit = (value: unknown): Lost | undefined => {
    visits += 1;
    if (typeof value !== "object" || value === null || visits > MAX_VISITS) return undefined;
    const keys = ObjectKeys(value);
    if (keys.length === 0) {
      const lost = LOST[ObjectPrototypeToString(value)];
      if (lost === undefined || typeof (value as { toJSON?: unknown }).toJSON === "function") return undefined;
      return { kind: lost[0], instead: lost[1], pointer: "" };
    }
    for (let index = 0; index < keys.length && visits <= MAX_VISITS; index += 1) {
      const key = keys[index] as string;
      const found = visit(readOwn(value, key));
      if (found === undefined) continue;
      found.pointer = `/${escapePointer(key)}${found.pointer}`;
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
