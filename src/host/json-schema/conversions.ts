// What a value of the wrong type may be turned into without losing anything of it.

/** No number of more significant digits is sure to be written the same after it was read. */
const SAFE_DIGITS = 15;
/** More is no slip of a model's, and would be parsed in the caller's turn. */
const MAX_JSON_UNITS = 64 * 1024;

/** The number that a text writes in JSON's grammar; undefined where a double is not exactly that. */
function toNumber(text: string): number | undefined {
  const parts = /^-?((?:0|[1-9]\d*)(?:\.\d+)?)(?:[eE][+-]?\d{1,3})?$/.exec(text);
  if (parts === null || text.length > 100) return undefined;
  const digits = (parts[1] ?? "").replace(".", "").replace(/^0+/, "").replace(/0+$/, "");
  const number = Number(text);
  if (!Number.isFinite(number)) return undefined;
  const isExact = digits.length <= SAFE_DIGITS || (Number.isSafeInteger(number) && String(number) === text);
  // Too small a number is read as 0.
  return isExact && (number !== 0 || digits === "") ? number : undefined;
}

/** The array or object that a text is the JSON of. */
function toContainer(text: string): unknown {
  if (text.length > MAX_JSON_UNITS || !/^\s*[[{]/.test(text)) return undefined;
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
  // Python writes them large.
  if (/^(true|false)$/i.test(text)) candidates.push(text.toLowerCase() === "true");
  if (text === "null" || text === "None") candidates.push(null);
  const container = toContainer(text);
  if (container !== undefined) candidates.push(container);
  return candidates;
}

/** Whether a double is sure to be the number that was written: an identifier of many digits has become another one when it was read. */
const isAsWritten = (number: number): boolean =>
  Number.isInteger(number) ? Number.isSafeInteger(number) : toNumber(String(number)) !== undefined;

/** What a value may stand for, the likeliest first; the list of one comes last. Empty for what can stand for nothing else. */
export function conversionsOf(value: unknown): readonly unknown[] {
  const own = typeof value === "string" ? ofText(value) : [];
  if (typeof value === "boolean" || (typeof value === "number" && isAsWritten(value))) own.push(String(value));
  return Array.isArray(value) || value === null ? own : [...own, [value]];
}
