// Measures the size of parsed values. Counting stops at the limit, so the cost does not grow with larger values.

export type JsonObject = { readonly [name: string]: unknown };

/** Size of each value in addition to its characters, for example for an object's header or a number. */
const VALUE_SIZE = 16;

/** Returns whether a parsed value contains at most `most` values, at any depth. */
export function hasAtMost(value: unknown, most: number): boolean {
  const open: unknown[] = [value];
  for (let seen = 0; open.length > 0; seen += 1) {
    if (seen + open.length > most) return false;
    const next = open.pop();
    if (typeof next !== "object" || next === null) continue;
    if (Array.isArray(next) && next.length > most) return false;
    // `Object.values` takes four times as long for an object with many keys, and cannot stop early.
    for (const key in next) {
      open.push((next as { readonly [key: string]: unknown })[key]);
      if (open.length > most) return false;
    }
  }
  return true;
}

/** Returns the size of a parsed value, in characters and values; a number greater than `most` if the size exceeds `most`. */
export function sizeOf(value: unknown, most: number): number {
  const open: unknown[] = [value];
  let size = 0;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    size += VALUE_SIZE + (typeof next === "string" ? next.length : 0);
    if (size + open.length * VALUE_SIZE > most) return most + 1;
    if (typeof next !== "object" || next === null) continue;
    if (Array.isArray(next)) {
      if (size + next.length * VALUE_SIZE > most) return most + 1;
      for (const inner of next) open.push(inner);
      continue;
    }
    for (const key in next) {
      size += key.length;
      if (size + open.length * VALUE_SIZE > most) return most + 1;
      open.push((next as { readonly [key: string]: unknown })[key]);
    }
  }
  return size;
}
