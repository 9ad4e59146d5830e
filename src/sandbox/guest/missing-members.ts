// Members of ctx that a tool has looked for and not found, so that a failure that follows can name the capability that was not granted.
// They stay absent: `ctx.kv?.get(key)`, `if (ctx.kv)` and `"kv" in ctx` tell a tool what it has.

import { toolPlace } from "./call-site.ts";
import { callState } from "./call-state.ts";
import { makeCapabilityError, notGranted } from "./error-text.ts";
import {
  append,
  defineValue,
  NumberParseInt,
  ObjectFreeze,
  ProxyConstructor,
  StringPrototypeIndexOf,
  StringPrototypeSlice,
} from "./primordials.ts";

/** Of one call. A tool that asks more often is told of its first ones. */
const MAX_MISSING = 16;
/** To find the place of a read takes some 10 µs. */
const MAX_PLACES = 64;
const MAX_NAME_LENGTH = 128;
/** `ctx.kv.get` fails at `get`, some characters behind where `kv` was read; brackets and quotes may be between. */
const MAX_COLUMNS = 8;
/** `const [a] = ctx.rows` fails at the beginning of the expression. */
const MAX_COLUMNS_BEFORE = 32;

interface Missing {
  readonly name: string;
  place: string | undefined;
}

let missing: Missing[] = [];
let ofCall = -1;
let places = 0;

function note(name: string): void {
  if (!callState.active || name.length > MAX_NAME_LENGTH) return;
  if (ofCall !== callState.serial) {
    missing = [];
    places = 0;
    ofCall = callState.serial;
  }
  let known: Missing | undefined;
  for (let index = 0; index < missing.length; index += 1) {
    if ((missing[index] as Missing).name === name) known = missing[index];
  }
  if (known === undefined) {
    if (missing.length >= MAX_MISSING) return;
    known = { name, place: undefined };
    append(missing, known);
  }
  if (places >= MAX_PLACES) return;
  places += 1;
  known.place = toolPlace();
}

/** What promises and JSON look for in any object. */
const isProtocol = (key: PropertyKey): boolean => key === "then" || key === "toJSON";

/** The prototype of each ctx: has nothing, and notes what is looked for. */
export const notingPrototype: object = new ProxyConstructor(ObjectFreeze({}), {
  __proto__: null,
  get(target: object, key: PropertyKey): unknown {
    if (typeof key === "string" && !isProtocol(key) && !(key in target)) note(key);
    return (target as { readonly [key: PropertyKey]: unknown })[key];
  },
} as ProxyHandler<object>);

/** Members of our own capabilities: one that is asked of `undefined` tells which capability the tool meant. */
const MEMBERS: { readonly [name: string]: readonly string[] } = {
  __proto__: null as never,
  kv: ["get", "getEntry", "set", "delete", "list"],
  tools: ["call"],
};

/** What stands between two parts of a text. */
function between(text: string, before: string, after: string): string | undefined {
  const at = StringPrototypeIndexOf(text, before);
  if (at < 0) return undefined;
  const start = at + before.length;
  const end = StringPrototypeIndexOf(text, after, start);
  return end < 0 ? undefined : StringPrototypeSlice(text, start, end);
}

/** Where the last name of an expression begins, as V8 prints it: `ctx.lookUp`, `(intermediate value).lookUp`, `lookUp`. */
function lastNameStart(expression: string): number {
  let start = 0;
  for (let dot = StringPrototypeIndexOf(expression, "."); dot >= 0; ) {
    start = dot + 1;
    dot = StringPrototypeIndexOf(expression, ".", start);
  }
  return start;
}

/** A bundle may give a local variable a number: `lookUp2`. */
function isCalled(variable: string, name: string): boolean {
  if (StringPrototypeIndexOf(variable, name) !== 0) return false;
  const rest = StringPrototypeSlice(variable, name.length);
  return rest === "" || `${NumberParseInt(rest, 10)}` === rest;
}

/** How an expression names a member: as a variable or of `ctx`, or of some other object, which may be ctx by another name. */
function namedHow(expression: string, name: string): "surely" | "perhaps" | undefined {
  const start = lastNameStart(expression);
  if (start === 0) return isCalled(expression, name) ? "surely" : undefined;
  if (StringPrototypeSlice(expression, start) !== name) return undefined;
  return isCalled(StringPrototypeSlice(expression, 0, start - 1), "ctx") ? "surely" : "perhaps";
}

/** Expressions of V8's messages for a use of what is undefined. */
const USES = [" is not a function", " is not a constructor", " is not iterable", " is not async iterable"];

/** The expression that V8's message says was used and is undefined. */
function usedIn(message: string): string | undefined {
  for (let index = 0; index < USES.length; index += 1) {
    const end = StringPrototypeIndexOf(message, USES[index] as string);
    if (end >= 0) return StringPrototypeSlice(message, 0, end);
  }
  return between(message, "of '", "' as it is undefined") ?? between(message, "destructure '", "' as it is undefined");
}

/** The property that was asked of `undefined`; undefined for the message of another error. */
const propertyOf = (message: string): string | undefined =>
  between(message, "undefined is not iterable (cannot read property ", ")") ??
  between(message, "of undefined (reading '", "')") ??
  between(message, "of undefined (setting '", "')") ??
  between(message, "Cannot destructure property '", "' of");

/** `tool.js:3:17` as the line with its script, and the column. */
function split(place: string): { readonly line: string; readonly column: number } {
  let colon = -1;
  for (let at = StringPrototypeIndexOf(place, ":"); at >= 0; at = StringPrototypeIndexOf(place, ":", at + 1))
    colon = at;
  const column = NumberParseInt(StringPrototypeSlice(place, colon + 1), 10);
  return { line: StringPrototypeSlice(place, 0, colon), column };
}

/** Whether the error arose where the member had just been read: `ctx.db.find()`, `ctx.db.timeout = 5`. */
function isThere(errorPlace: string | undefined, property: string, { name, place }: Missing): boolean {
  if (errorPlace === undefined || place === undefined) return false;
  const { line, column } = split(place);
  const { line: errorLine, column: errorColumn } = split(errorPlace);
  const behind = errorColumn - column;
  const isIterated = StringPrototypeIndexOf(property, "Symbol(") === 0;
  if (line !== errorLine || behind < (isIterated ? -MAX_COLUMNS_BEFORE : 0)) return false;
  return behind <= name.length + property.length + MAX_COLUMNS;
}

function isMember(name: string, property: string): boolean {
  const members = MEMBERS[name] ?? [];
  for (let index = 0; index < members.length; index += 1) if (members[index] === property) return true;
  return false;
}

/** What the tool meant; `isGuess` where only the name of what it used speaks for that: another object may have such a member too. */
interface Meant {
  readonly name: string;
  readonly isGuess: boolean;
}

function findMeant(message: string, errorPlace: string | undefined): Meant | undefined {
  const property = propertyOf(message);
  const used = usedIn(message);
  let guess: Meant | undefined;
  for (let index = 0; index < missing.length; index += 1) {
    const one = missing[index] as Missing;
    const { name } = one;
    const how = used === undefined ? undefined : namedHow(used, name);
    if (how === "surely" || (how === "perhaps" && isThere(errorPlace, "", one))) return { name, isGuess: false };
    if (property === undefined) continue;
    if (isThere(errorPlace, property, one)) return { name, isGuess: false };
    if (isMember(name, property)) guess = { name, isGuess: true };
  }
  return guess;
}

/**
 * Returns the error that names the capability, for a TypeError of this call that arose from using what ctx does not have; any other
 * thrown value as it is. Where it is a guess, the error stays the tool's own, with a hint in its message. No name is checked against what the host has defined: the answer is the same for those that there are not.
 */
export function nameMissing(thrown: unknown): unknown {
  if (ofCall !== callState.serial || missing.length === 0) return thrown;
  try {
    const { name, message, stack } = thrown as { readonly [key: string]: unknown };
    if (name !== "TypeError" || typeof message !== "string" || typeof stack !== "string") return thrown;
    const meant = findMeant(message, toolPlace(stack));
    if (meant === undefined) return thrown;
    const text = notGranted(`ctx.${meant.name}`, meant.name);
    if (meant.isGuess) return { __proto__: null, name, message: `${message} (perhaps: ${text})`, stack };
    const error = makeCapabilityError("CAPABILITY_DENIED", text, meant.name);
    const frames = StringPrototypeIndexOf(stack, "\n    at ");
    if (frames >= 0)
      defineValue(error, "stack", `CapabilityError: ${text}${StringPrototypeSlice(stack, frames)}`, false);
    return error;
  } catch {
    return thrown;
  }
}
