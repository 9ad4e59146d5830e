// Detects numbers that are too large for a double: JSON.parse reads `1e400` as Infinity, which would be serialized as `null`.
import type { JsonValue } from "../../sandbox/contract/errors.ts";

/** The largest double, 1.8e308, has 309 digits before the point; with a two-digit exponent, a number of 210 digits can exceed it. */
const MANY_DIGITS = 200;
const LARGE_EXPONENT = /[eE]\+?\d{3}/;

function isDigit(unit: number): boolean {
  return unit >= 48 && unit <= 57;
}

/** Every run of this many digits contains a multiple of this number, so few positions must be checked. */
function hasManyDigits(text: string): boolean {
  for (let at = MANY_DIGITS - 1; at < text.length; at += MANY_DIGITS) {
    let from = at;
    while (from >= 0 && isDigit(text.charCodeAt(from))) from -= 1;
    let to = at;
    while (to < text.length && isDigit(text.charCodeAt(to))) to += 1;
    if (to - from > MANY_DIGITS) return true;
  }
  return false;
}

/** Returns whether JSON text can contain such a number. */
const mayOverflow = (text: string): boolean => hasManyDigits(text) || LARGE_EXPONENT.test(text);

function isInfinite(value: JsonValue): boolean {
  if (typeof value === "number") return !Number.isFinite(value);
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) {
    // By index: an iterator creates an object per step, and there may be millions of steps.
    for (let index = 0; index < value.length; index += 1) if (isInfinite(value[index] as JsonValue)) return true;
    return false;
  }
  for (const key in value)
    if (isInfinite((value as { readonly [key: string]: JsonValue })[key] as JsonValue)) return true;
  return false;
}

/** Returns whether a value that was parsed from `text` contains a number that is not finite. */
export const containsNonFinite = (value: JsonValue, text: string): boolean => mayOverflow(text) && isInfinite(value);
