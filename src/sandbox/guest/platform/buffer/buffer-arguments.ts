// Checks of the arguments of Buffer's methods, with the errors that Node throws.
import { checkNumber, invalidArgument, nodeError, outOfRange } from "../shared/node-error.ts";

export type Bytes = Uint8Array;
const INSTANCE = "an instance of Buffer or Uint8Array";

export function checkBytes(value: unknown, name: string): asserts value is Bytes {
  if (!(value instanceof Uint8Array)) throw invalidArgument(name, INSTANCE, value);
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
