// Canonical JSON, for digests and signatures: two values that are equal as JSON have the same text.

/**
 * Returns a value as JSON text with sorted keys and without fields that are undefined, so that neither the order in which a store returns
 * the keys nor an optional field that is set to undefined changes the text.
 */
export function toCanonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(toCanonicalJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${toCanonicalJson(field)}`).join(",")}}`;
}
