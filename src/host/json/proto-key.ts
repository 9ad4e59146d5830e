// Detects the key `__proto__`, which is rejected in every value: a careless merge in later code would follow it to Object.prototype.
export const PROTO = "__proto__";
/** Length of the longest form of the key, in which every character is an escape. */
export const MAX_PROTO_LENGTH = PROTO.length * "\\u005f".length;

/** Returns whether the text between two quotes is the key, with or without escapes. */
export function isProtoKey(raw: string): boolean {
  if (raw === PROTO) return true;
  if (!raw.includes("\\")) return false;
  try {
    return JSON.parse(`"${raw}"`) === PROTO;
  } catch {
    return false;
  }
}
