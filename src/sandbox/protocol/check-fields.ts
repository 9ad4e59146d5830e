// Checks of message fields by hand, for the few messages that each call sends: a schema takes several times as long.

/** Fields of a message that were not checked. */
export type Fields = { readonly [name: string]: unknown };

export const isSeq = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 1;
export const isCount = (value: unknown): value is number =>
  typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER;
export const isText = (value: unknown, maxLength: number): value is string =>
  typeof value === "string" && value.length <= maxLength;

/** Returns the number of own keys of a parsed object, or -1 for any other value. */
export function countFields(value: unknown): number {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return -1;
  let count = 0;
  for (const _key in value) count += 1;
  return count;
}
