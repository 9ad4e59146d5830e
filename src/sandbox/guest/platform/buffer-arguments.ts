// Checks of the arguments of Buffer's methods, with the errors that Node throws.
import { invalidArgument, nodeError } from "./node-error.ts";

export type Bytes = Uint8Array;
const INSTANCE = "an instance of Buffer or Uint8Array";
const LARGE = 2 ** 32;

export function checkBytes(value: unknown, name: string): asserts value is Bytes {
  if (!(value instanceof Uint8Array)) throw invalidArgument(name, INSTANCE, value);
}

export function checkNumber(value: unknown, name: string): asserts value is number {
  if (typeof value !== "number") throw invalidArgument(name, "of type number", value);
}

/** Writes large whole numbers in groups of three digits. */
function received(value: unknown): string {
  const isBig = typeof value === "bigint";
  const text = String(value);
  const isLarge = isBig
    ? value > BigInt(LARGE) || value < -BigInt(LARGE)
    : Number.isInteger(value) && Math.abs(value as number) > LARGE;
  const grouped = isLarge ? text.replace(/\B(?=(?:\d{3})+$)/g, "_") : Object.is(value, -0) ? "-0" : text;
  return isBig ? `${grouped}n` : grouped;
}

/** Creates an ERR_OUT_OF_RANGE. */
export function outOfRange(name: string, range: string, value: unknown): Error {
  const rule = range === "" ? "" : ` It must be ${range}. Received ${received(value)}`;
  return nodeError(RangeError, "ERR_OUT_OF_RANGE", `The value of "${name}" is out of range.${rule}`);
}

/** @throws {TypeError | RangeError} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE */
export function checkOffset(value: unknown, name: string, max: number = Number.MAX_SAFE_INTEGER): number {
  checkNumber(value, name);
  if (!Number.isInteger(value)) throw outOfRange(name, "an integer", value);
  if (value < 0 || value > max) throw outOfRange(name, `>= 0 && <= ${max}`, value);
  return value;
}

/** Creates the error for an offset at which there are not enough bytes. */
export function boundsError(value: number, last: number, name: "offset" | "byteLength" = "offset"): Error {
  if (Math.floor(value) !== value) return outOfRange(name, "an integer", value);
  if (last < 0)
    return nodeError(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", "Attempt to access memory outside buffer bounds");
  return outOfRange(name, `>= ${name === "offset" ? 0 : 1} and <= ${last}`, value);
}

/** Creates an ERR_UNKNOWN_ENCODING. */
export const unknownEncoding = (encoding: unknown): Error =>
  nodeError(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${String(encoding)}`);
