// JSON's grammar has numbers that no double holds: `1e400` is read as Infinity, which has no JSON, and would leave as `null`.
import type { JsonValue } from "../sandbox/errors.ts";

/** Below this a number needs an exponent to pass the largest double, 1.8e308. */
const DIGITS_OF_LARGEST = 309;
const LARGE_EXPONENT = /[eE]\+?\d{3}/;

/** Whether JSON text may have such a number. */
const mayOverflow = (text: string): boolean => text.length >= DIGITS_OF_LARGEST || LARGE_EXPONENT.test(text);

function isInfinite(value: JsonValue): boolean {
  if (typeof value === "number") return !Number.isFinite(value);
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) {
    // By index: iterating makes an object for each step, and there may be millions.
    for (let index = 0; index < value.length; index += 1) if (isInfinite(value[index] as JsonValue)) return true;
    return false;
  }
  for (const key in value)
    if (isInfinite((value as { readonly [key: string]: JsonValue })[key] as JsonValue)) return true;
  return false;
}

/** Whether a value that was parsed from `text` holds a number that is none. */
export const holdsInfinity = (value: JsonValue, text: string): boolean => mayOverflow(text) && isInfinite(value);
