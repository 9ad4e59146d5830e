// Converts a thrown value to texts of limited length. The value is untrusted: it may have getters, be a proxy, or contain huge strings.
import { GUEST_ERROR_LIMITS, type GuestError } from "../protocol/guest-messages.ts";
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

export { notGranted } from "../protocol/not-granted.ts";

interface CapabilityFailure {
  readonly code: string;
  /** Name of the capability, if it was not granted. */
  readonly name: string | undefined;
  /** Number of the tool call that failed. If a later call throws the same error, it does not count as that call's failure. */
  readonly serial: number;
}

const capabilityFailures = new WeakMapConstructor<object, CapabilityFailure>();

/** Creates the error of a failed capability call. Its code is also stored where the tool cannot write, so that it can be trusted later. */
export function createCapabilityError(code: string, message: string, capability?: string, networkCode?: string): Error {
  const error = new ErrorConstructor(message);
  defineValue(error, "name", "CapabilityError", false);
  defineValue(error, "code", code);
  if (networkCode !== undefined) defineValue(error, "networkCode", networkCode, false);
  WeakMapPrototypeSet(capabilityFailures, error, { code, name: capability, serial: callState.serial });
  return error;
}

/** Gives an error the `code` that Node gives it. */
export function withCode<Made extends Error>(error: Made, code: string): Made {
  defineValue(error, "code", code);
  return error;
}

const reasons = new WeakMapConstructor<object, { readonly message: string; readonly reason: string }>();

/**
 * Gives an error whose message is Node's, because libraries compare it, a reason that the call's own error names as well: the caller of a tool
 * sees no causes.
 */
export function withReason<Made extends Error>(error: Made, reason: string): Made {
  WeakMapPrototypeSet(reasons, error, { message: error.message, reason });
  return error;
}

/** Adds the reason of a failure, unless the tool or Python has changed its message. */
function withReasonText(error: object, message: string): string {
  const known = WeakMapPrototypeGet(reasons, error);
  return known?.message === message ? truncateText(`${message}: ${known.reason}`, GUEST_ERROR_LIMITS.message) : message;
}

/** Truncates text to `maxLength` UTF-16 code units and replaces lone surrogates. */
export function truncateText(text: string, maxLength: number): string {
  if (text.length <= maxLength) return StringPrototypeToWellFormed(text);
  return `${StringPrototypeToWellFormed(StringPrototypeSlice(text, 0, maxLength))}…`;
}

/** Describes a value for a message. Never throws. */
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

function readText(source: object, key: "name" | "message" | "stack" | "code", maxLength: number): string | undefined {
  try {
    const value = (source as { readonly [key: string]: unknown })[key];
    return typeof value === "string" ? truncateText(value, maxLength) : undefined;
  } catch {
    return undefined;
  }
}

/** Truncates the name of a capability. Python code can use names of any length. */
const capName = (name: string | undefined): string | undefined =>
  name === undefined
    ? undefined
    : StringPrototypeToWellFormed(StringPrototypeSlice(name, 0, GUEST_ERROR_LIMITS.capability));

/** Converts a thrown value to a GuestError. For a value that is not an Error, the message describes the value. */
export function toGuestError(thrown: unknown): GuestError {
  const isObject = (typeof thrown === "object" && thrown !== null) || typeof thrown === "function";
  const text = isObject ? readText(thrown as object, "message", GUEST_ERROR_LIMITS.message) : undefined;
  if (!isObject || text === undefined) {
    const shown = truncateText(describeValue(thrown), GUEST_ERROR_LIMITS.message);
    const message = `The tool threw a value that is not an Error: ${shown}`;
    return { __proto__: null, name: "Error", message, stack: "" } as unknown as GuestError;
  }
  const error = thrown as object;
  const code = readText(error, "code", 64);
  const failure = WeakMapPrototypeGet(capabilityFailures, error);
  return {
    __proto__: null,
    name: readText(error, "name", GUEST_ERROR_LIMITS.name) ?? "Error",
    message: withReasonText(error, text),
    stack: readText(error, "stack", GUEST_ERROR_LIMITS.stack) ?? "",
    ...(code === undefined ? {} : { code }),
    ...(failure?.serial === callState.serial
      ? { capabilityCode: failure.code, capability: capName(failure.name) }
      : {}),
  } as unknown as GuestError;
}
