// Formats the value of a snippet: as JSON if possible, and otherwise also as a console shows it.
import { inspect } from "node:util";

const MAX_TEXT = 20_000;

interface Shown {
  readonly result: unknown;
  readonly text?: string;
}

export function toResult(value: unknown): Shown {
  const result = toJson(value);
  if (result !== undefined && isWhole(value, 0)) return { result };
  if (value === undefined) return { result: null };
  return { result: result ?? null, text: inspect(value, { depth: 4, maxArrayLength: 200 }).slice(0, MAX_TEXT) };
}

/** Undefined if the value has no JSON form. */
function toJson(value: unknown): unknown {
  try {
    const text = JSON.stringify(value);
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether JSON holds all of it. Looks at the first levels only: what is deeper shows in `result` as JSON has it. */
function isWhole(value: unknown, depth: number): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return typeof value !== "function" && typeof value !== "symbol";
  if (depth > 3) return true;
  const hasJson = Array.isArray(value) || typeof (value as { toJSON?: unknown }).toJSON === "function";
  const prototype: unknown = Object.getPrototypeOf(value);
  if (!hasJson && prototype !== Object.prototype && prototype !== null) return false;
  return Object.values(value).every((one) => isWhole(one, depth + 1));
}
