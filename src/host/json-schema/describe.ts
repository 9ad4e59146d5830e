// Describes values and schema keywords for the `expected` and `got` of an issue. Every text is bounded and has one line.

const MAX_TEXT_LENGTH = 40;
const MAX_LISTED = 10;
/** Longer names and lists are not searched for a likely misspelling, since the search takes quadratic time. */
const MAX_SUGGESTION_LENGTH = 40;
const MAX_SUGGESTION_NAMES = 200;

export type JsonType = "null" | "boolean" | "number" | "string" | "array" | "object";

export function typeOf(value: unknown): JsonType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  const type = typeof value;
  if (type === "boolean" || type === "number" || type === "string") return type;
  return "object";
}

/** Returns a string as JSON, cut if it is long. JSON escapes control characters and lone surrogates. */
export function quoteShortened(text: string): string {
  return text.length <= MAX_TEXT_LENGTH ? JSON.stringify(text) : `${JSON.stringify(text.slice(0, MAX_TEXT_LENGTH))}…`;
}

/** Returns a text such as `string "abc"`, `number 3`, `array of 2 items` or `object`, in constant time. */
export function describeValue(value: unknown): string {
  switch (typeOf(value)) {
    case "null":
      return "null";
    case "boolean":
      return `boolean ${String(value)}`;
    case "number":
      return `number ${String(value)}`;
    case "string":
      return `string ${quoteShortened(String(value))}`;
    case "array":
      return `array of ${formatCount((value as readonly unknown[]).length, "item", "items")}`;
    case "object":
      return "object";
  }
}

export function formatCount(amount: number, one: string, many: string): string {
  return `${amount} ${amount === 1 ? one : many}`;
}

/** Returns the JSON of a constant in a schema, cut if it is long. */
export function formatConstant(value: unknown): string {
  if (typeof value === "string") return quoteShortened(value);
  const json = JSON.stringify(value) ?? "null";
  return json.length <= MAX_TEXT_LENGTH ? json : `${json.slice(0, MAX_TEXT_LENGTH)}…`;
}

/** Returns `a, b, c` for at most ten items, followed by the number of further ones. */
export function formatList<Item>(items: readonly Item[], toText: (item: Item) => string): string {
  const shown = items.slice(0, MAX_LISTED).map(toText).join(", ");
  return items.length <= MAX_LISTED ? shown : `${shown} and ${items.length - MAX_LISTED} more`;
}

/** Returns the known name that `name` is most likely a misspelling of: at most a third of its letters differ. */
export function didYouMean(name: string, known: readonly string[]): string | undefined {
  if (name.length > MAX_SUGGESTION_LENGTH || known.length > MAX_SUGGESTION_NAMES) return undefined;
  let best: string | undefined;
  let bestDistance = Math.floor(Math.max(name.length, 3) / 3) + 1;
  for (const candidate of known) {
    if (Math.abs(candidate.length - name.length) >= bestDistance) continue;
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** Returns the optimal string alignment distance: edits between two strings, where two swapped neighbours count as one edit. */
function editDistance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, index) => index)];
  const at = (i: number, j: number): number => rows[i]?.[j] ?? 0;
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j++) {
      const substituted = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const best = Math.min(substituted, at(i - 1, j) + 1, at(i, j - 1) + 1);
      row.push(swapped ? Math.min(best, at(i - 2, j - 2) + 1) : best);
    }
  }
  return at(a.length, b.length);
}
