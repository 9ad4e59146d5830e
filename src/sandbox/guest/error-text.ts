// Turns whatever a tool threw into capped text. The thrown value is hostile: getters, proxies, endless strings.
import { GUEST_ERROR_CAPS, type GuestError } from "../protocol/guest-messages.ts";
import { callState } from "./call-state.ts";
import {
  defineValue,
  ErrorConstructor,
  FunctionPrototypeToString,
  JSONStringify,
  ObjectPrototypeToString,
  StringConstructor,
  StringPrototypeSlice,
  StringPrototypeToWellFormed,
  SymbolPrototypeToString,
  WeakMapConstructor,
  WeakMapPrototypeGet,
  WeakMapPrototypeSet,
} from "./primordials.ts";

interface Refusal {
  readonly code: string;
  /** The capability that was not granted, where that is why. */
  readonly name: string | undefined;
  /** The call that was refused: thrown again in a later one, the error says nothing of that one. */
  readonly serial: number;
}

const refusals = new WeakMapConstructor<object, Refusal>();

/** An error for a capability's refusal. Its code is remembered where a guest cannot write, so that it can be believed later. */
export function makeCapabilityError(code: string, message: string, capability?: string, networkCode?: string): Error {
  const error = new ErrorConstructor(message);
  defineValue(error, "name", "CapabilityError", false);
  defineValue(error, "code", code);
  if (networkCode !== undefined) defineValue(error, "networkCode", networkCode, false);
  WeakMapPrototypeSet(refusals, error, { code, name: capability, serial: callState.serial });
  return error;
}

/** How each message says that a capability was not granted; `use` is how the tool named it. */
export const notGranted = (use: string, capability: string): string =>
  `${use} is not granted to this tool; the host can grant it: grant: ["${capability}"]`;

/** At most `cap` UTF-16 units, lone surrogates replaced. */
export function capText(text: string, cap: number): string {
  if (text.length <= cap) return StringPrototypeToWellFormed(text);
  return `${StringPrototypeToWellFormed(StringPrototypeSlice(text, 0, cap))}…`;
}

/** A value as short text for a message; never throws. */
export function describeValue(value: unknown): string {
  try {
    switch (typeof value) {
      case "string":
        return value;
      case "symbol":
        return SymbolPrototypeToString(value);
      case "function":
        return StringPrototypeSlice(FunctionPrototypeToString(value as () => void), 0, 80);
      case "object":
        return value === null ? "null" : (JSONStringify(value) ?? ObjectPrototypeToString(value));
      default:
        return StringConstructor(value);
    }
  } catch {
    return "a value that cannot be shown";
  }
}

function readText(source: object, key: "name" | "message" | "stack" | "code", cap: number): string | undefined {
  try {
    const value = (source as { readonly [key: string]: unknown })[key];
    return typeof value === "string" ? capText(value, cap) : undefined;
  } catch {
    return undefined;
  }
}

/** Python asks for capabilities by names of any length. */
const capName = (name: string | undefined): string | undefined =>
  name === undefined
    ? undefined
    : StringPrototypeToWellFormed(StringPrototypeSlice(name, 0, GUEST_ERROR_CAPS.capability));

/** A thrown value's parts; a non-Error becomes one with its value as the message. */
export function toGuestError(thrown: unknown): GuestError {
  const isObject = (typeof thrown === "object" && thrown !== null) || typeof thrown === "function";
  const text = isObject ? readText(thrown as object, "message", GUEST_ERROR_CAPS.message) : undefined;
  if (!isObject || text === undefined) {
    const shown = capText(describeValue(thrown), GUEST_ERROR_CAPS.message);
    const message = `The tool threw a value that is not an Error: ${shown}`;
    return { __proto__: null, name: "Error", message, stack: "" } as unknown as GuestError;
  }
  const error = thrown as object;
  const code = readText(error, "code", 64);
  const refusal = WeakMapPrototypeGet(refusals, error);
  return {
    __proto__: null,
    name: readText(error, "name", GUEST_ERROR_CAPS.name) ?? "Error",
    message: text,
    stack: readText(error, "stack", GUEST_ERROR_CAPS.stack) ?? "",
    ...(code === undefined ? {} : { code }),
    ...(refusal?.serial === callState.serial
      ? { capabilityCode: refusal.code, capability: capName(refusal.name) }
      : {}),
  } as unknown as GuestError;
}
