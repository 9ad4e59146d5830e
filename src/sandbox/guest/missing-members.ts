// Records missing members of ctx that a tool has read, so that a TypeError caused by one can name the capability that was not granted.
// Missing members stay absent, so that `ctx.kv?.get(key)`, `if (ctx.kv)` and `"kv" in ctx` work.

import { GUEST_ERROR_LIMITS, type GuestError } from "../protocol/guest-messages.ts";
import { grantOf, notGranted } from "../protocol/not-granted.ts";
import { callState } from "./call-state.ts";
import { createCapabilityError, toGuestError } from "./error-text.ts";
import { FEATURE_GLOBALS } from "./lockdown.ts";
import {
  append,
  defineValue,
  NumberParseInt,
  ObjectFreeze,
  ObjectHasOwn,
  ProxyConstructor,
  StringPrototypeIndexOf,
  StringPrototypeSlice,
} from "./primordials.ts";
import { toolPlace } from "./source-location.ts";

/** Maximum number of missing members that are recorded per call. */
const MAX_MISSING = GUEST_ERROR_LIMITS.missing;
/** Maximum number of reads per call whose location is recorded. Finding a location takes about 10 µs. */
const MAX_LOCATIONS = 64;
const MAX_NAME_LENGTH = GUEST_ERROR_LIMITS.capability;
/** `ctx.kv.get` fails at `get`, some columns after the read of `kv`. This allows for brackets and quotes in between. */
const MAX_EXTRA_COLUMNS = 8;
/** `const [a] = ctx.rows` fails at the start of the expression, before the read. */
const MAX_COLUMNS_BEFORE = 32;

interface MissingMember {
  readonly name: string;
  /** Source location of the last read. */
  location: string | undefined;
}

let missing: MissingMember[] = [];
/** Call that the records belong to. */
let recordedSerial = -1;
let locationCount = 0;

function recordRead(name: string): void {
  if (!callState.active || name.length > MAX_NAME_LENGTH) return;
  if (recordedSerial !== callState.serial) {
    missing = [];
    locationCount = 0;
    recordedSerial = callState.serial;
  }
  let known: MissingMember | undefined;
  for (let index = 0; index < missing.length; index += 1) {
    if ((missing[index] as MissingMember).name === name) known = missing[index];
  }
  if (known === undefined) {
    if (missing.length >= MAX_MISSING) return;
    known = { name, location: undefined };
    append(missing, known);
  }
  if (locationCount >= MAX_LOCATIONS) return;
  locationCount += 1;
  known.location = toolPlace();
}

/** Keys that promises and JSON.stringify read from any object. */
const isProtocol = (key: PropertyKey): boolean => key === "then" || key === "toJSON";

/** Prototype of each ctx: an empty object that records reads of missing members. */
export const recordingPrototype: object = new ProxyConstructor(ObjectFreeze({}), {
  __proto__: null,
  get(target: object, key: PropertyKey): unknown {
    if (typeof key === "string" && !isProtocol(key) && !(key in target)) recordRead(key);
    return (target as { readonly [key: PropertyKey]: unknown })[key];
  },
} as ProxyHandler<object>);

/** Returns the text between two parts of a text. */
function between(text: string, before: string, after: string): string | undefined {
  const at = StringPrototypeIndexOf(text, before);
  if (at < 0) return undefined;
  const start = at + before.length;
  const end = StringPrototypeIndexOf(text, after, start);
  return end < 0 ? undefined : StringPrototypeSlice(text, start, end);
}

/** Returns the start of the last name in an expression that V8 prints: `ctx.lookUp`, `(intermediate value).lookUp`, `lookUp`. */
function lastNameStart(expression: string): number {
  let start = 0;
  for (let dot = StringPrototypeIndexOf(expression, "."); dot >= 0; ) {
    start = dot + 1;
    dot = StringPrototypeIndexOf(expression, ".", start);
  }
  return start;
}

/** Returns whether a variable has this name, possibly with a number that the bundler has appended: `lookUp2`. */
function isNamed(variable: string, name: string): boolean {
  if (StringPrototypeIndexOf(variable, name) !== 0) return false;
  const rest = StringPrototypeSlice(variable, name.length);
  return rest === "" || `${NumberParseInt(rest, 10)}` === rest;
}

/**
 * Returns how certainly an expression refers to a member of ctx. It is certain for a variable of that name and for `ctx.NAME`. It is
 * possible for a property of another object, which may be ctx under another name.
 */
function matchExpression(expression: string, name: string): "certain" | "possible" | undefined {
  const start = lastNameStart(expression);
  if (start === 0) return isNamed(expression, name) ? "certain" : undefined;
  if (StringPrototypeSlice(expression, start) !== name) return undefined;
  return isNamed(StringPrototypeSlice(expression, 0, start - 1), "ctx") ? "certain" : "possible";
}

/** Endings of V8's messages for a wrong use of undefined. */
const MESSAGE_ENDINGS = [" is not a function", " is not a constructor", " is not iterable", " is not async iterable"];

/** Returns the undefined expression from V8's message. */
function undefinedExpression(message: string): string | undefined {
  for (let index = 0; index < MESSAGE_ENDINGS.length; index += 1) {
    const end = StringPrototypeIndexOf(message, MESSAGE_ENDINGS[index] as string);
    if (end >= 0) return StringPrototypeSlice(message, 0, end);
  }
  return between(message, "of '", "' as it is undefined") ?? between(message, "destructure '", "' as it is undefined");
}

/** Returns the property that was read from `undefined`, or undefined if the message is about another error. */
const propertyOf = (message: string): string | undefined =>
  between(message, "undefined is not iterable (cannot read property ", ")") ??
  between(message, "of undefined (reading '", "')") ??
  between(message, "of undefined (setting '", "')") ??
  between(message, "Cannot destructure property '", "' of");

/** Splits `tool.js:3:17` into script with line, and column. */
function splitLocation(location: string): { readonly line: string; readonly column: number } {
  let colon = -1;
  for (let at = StringPrototypeIndexOf(location, ":"); at >= 0; at = StringPrototypeIndexOf(location, ":", at + 1))
    colon = at;
  const column = NumberParseInt(StringPrototypeSlice(location, colon + 1), 10);
  return { line: StringPrototypeSlice(location, 0, colon), column };
}

/** Returns whether the error occurred where the member was read: `ctx.db.find()`, `ctx.db.timeout = 5`. */
function isAtRead(errorLocation: string | undefined, property: string, { name, location }: MissingMember): boolean {
  if (errorLocation === undefined || location === undefined) return false;
  const { line, column } = splitLocation(location);
  const { line: errorLine, column: errorColumn } = splitLocation(errorLocation);
  const distance = errorColumn - column;
  const isIterated = StringPrototypeIndexOf(property, "Symbol(") === 0;
  if (line !== errorLine || distance < (isIterated ? -MAX_COLUMNS_BEFORE : 0)) return false;
  return distance <= name.length + property.length + MAX_EXTRA_COLUMNS;
}

/** Returns the name of the missing member that certainly caused an error. */
function findCause(message: string, errorLocation: string | undefined): string | undefined {
  const property = propertyOf(message);
  const expression = undefinedExpression(message);
  for (let index = 0; index < missing.length; index += 1) {
    const member = missing[index] as MissingMember;
    const { name } = member;
    const match = expression === undefined ? undefined : matchExpression(expression, name);
    if (match === "certain" || (match === "possible" && isAtRead(errorLocation, "", member))) return name;
    if (property !== undefined && isAtRead(errorLocation, property, member)) return name;
  }
  return undefined;
}

/** Names of the missing members that the call has read, for {@link GuestError.missing}. */
function missingNames(): string[] {
  const names: string[] = [];
  for (let index = 0; index < missing.length; index += 1) append(names, (missing[index] as MissingMember).name);
  return names;
}

/** Returns the error of a tool that has used the global of an engine feature without having it, such as WebAssembly. */
function toFeatureError(thrown: unknown): GuestError | undefined {
  try {
    const { name, message, stack } = thrown as { readonly [key: string]: unknown };
    if (name !== "ReferenceError" || typeof stack !== "string") return undefined;
    for (let index = 0; index < FEATURE_GLOBALS.length; index += 1) {
      const [feature, global] = FEATURE_GLOBALS[index] as (typeof FEATURE_GLOBALS)[number];
      if (message !== `${global} is not defined` || ObjectHasOwn(globalThis, global)) continue;
      return toDenial(notGranted(global, feature), feature, stack);
    }
  } catch {
    // The error's own getters threw.
  }
  return undefined;
}

/** Returns the error for something that is not granted, at the place of another error. */
function toDenial(text: string, capability: string, stack: string): GuestError {
  const error = createCapabilityError("CAPABILITY_DENIED", text, capability);
  const frames = StringPrototypeIndexOf(stack, "\n    at ");
  if (frames >= 0) defineValue(error, "stack", `CapabilityError: ${text}${StringPrototypeSlice(stack, frames)}`, false);
  return toGuestError(error);
}

/**
 * Converts what a tool has thrown to a GuestError. A ReferenceError for the global of an engine feature names the
 * feature. A TypeError that was certainly caused by a missing member of ctx becomes an error that names the capability.
 * Another TypeError about `undefined` carries the names of the missing members, since `async (_, { kv }) => kv.get()`
 * does not tell in the isolate which variable was undefined; the host reads it from the source. Names are not compared
 * with the capabilities that the host has defined, so that a tool cannot find out which exist.
 */
export function toCallError(thrown: unknown): GuestError {
  const denial = toFeatureError(thrown);
  if (denial !== undefined) return denial;
  if (recordedSerial !== callState.serial || missing.length === 0) return toGuestError(thrown);
  try {
    const { name, message, stack } = thrown as { readonly [key: string]: unknown };
    if (name !== "TypeError" || typeof message !== "string" || typeof stack !== "string") return toGuestError(thrown);
    const cause = findCause(message, toolPlace(stack));
    if (cause === undefined) {
      const error = toGuestError(thrown);
      return propertyOf(message) === undefined
        ? error
        : ({ __proto__: null, ...error, missing: missingNames() } as GuestError);
    }
    const capability = grantOf(cause);
    return toDenial(notGranted(`ctx.${cause}`, capability), capability, stack);
  } catch {
    return toGuestError(thrown);
  }
}
