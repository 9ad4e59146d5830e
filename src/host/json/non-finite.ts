// JSON's grammar has numbers that no double holds: `1e400` is read as Infinity, which has no JSON, and would leave as `null`.
import type { JsonValue } from "../../sandbox/contract/errors.ts";

/** The largest double, 1.8e308, has 309 digits before its point; with an exponent of two digits a number of 210 may pass it. */
const MANY_DIGITS = 200;
const LARGE_EXPONENT = /[eE]\+?\d{3}/;

function isDigit(unit: number): boolean {
  return unit >= 48 && unit <= 57;
}

/** A run of so many has one at a multiple of that number, so few places have to be looked at. */
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

/** Whether JSON text may have such a number. */
const mayOverflow = (text: string): boolean => hasManyDigits(text) || LARGE_EXPONENT.test(text);

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
export const containsNonFinite = (value: JsonValue, text: string): boolean => mayOverflow(text) && isInfinite(value);
