// Lists the values that a value of the wrong type can be converted to without losing information.

/** Longest number of significant digits that always survive a conversion to a double and back. */
const SAFE_DIGITS = 15;
/** Longest string that is parsed as JSON. It is parsed synchronously, and longer strings are not a model's mistake. */
const MAX_JSON_LENGTH = 64 * 1024;

/** Parses a JSON number; returns undefined for other text, and for numbers that a double cannot represent exactly. */
function toNumber(text: string): number | undefined {
  const parts = /^-?((?:0|[1-9]\d*)(?:\.\d+)?)(?:[eE][+-]?\d{1,3})?$/.exec(text);
  if (parts === null || text.length > 100) return undefined;
  const digits = (parts[1] ?? "").replace(".", "").replace(/^0+/, "").replace(/0+$/, "");
  const number = Number(text);
  if (!Number.isFinite(number)) return undefined;
  const isExact = digits.length <= SAFE_DIGITS || (Number.isSafeInteger(number) && String(number) === text);
  // A number that is too small is parsed as 0.
  return isExact && (number !== 0 || digits === "") ? number : undefined;
}

/** Parses a JSON array or object; returns undefined for other text. */
function toContainer(text: string): unknown {
  if (text.length > MAX_JSON_LENGTH || !/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function ofText(text: string): unknown[] {
  const candidates: unknown[] = [];
  const number = toNumber(text.trim());
  if (number !== undefined) candidates.push(number);
  // Python capitalizes booleans.
  if (/^(true|false)$/i.test(text)) candidates.push(text.toLowerCase() === "true");
  if (text === "null" || text === "None") candidates.push(null);
  const container = toContainer(text);
  if (container !== undefined) candidates.push(container);
  return candidates;
}

/** Tells whether a double is exactly the number in the JSON text. An identifier of many digits loses digits when it is parsed. */
const isAsWritten = (number: number): boolean =>
  Number.isInteger(number) ? Number.isSafeInteger(number) : toNumber(String(number)) !== undefined;

/** Returns the possible conversions of a value, the likeliest first and an array of the value last. */
export function conversionsOf(value: unknown): readonly unknown[] {
  const own = typeof value === "string" ? ofText(value) : [];
  if (typeof value === "boolean" || (typeof value === "number" && isAsWritten(value))) own.push(String(value));
  return Array.isArray(value) || value === null ? own : [...own, [value]];
}
