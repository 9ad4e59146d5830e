// The one key that no value may have: a careless merge downstream would follow it to Object.prototype.
export const PROTO = "__proto__";
/** Every unit as an escape: the longest way to write the key. */
export const MAX_PROTO_UNITS = PROTO.length * "\\u005f".length;

/** Whether the text between two quotes is the key, plain or with escapes. */
export function isProtoKey(raw: string): boolean {
  if (raw === PROTO) return true;
  if (!raw.includes("\\")) return false;
  try {
    return JSON.parse(`"${raw}"`) === PROTO;
  } catch {
    return false;
  }
}
