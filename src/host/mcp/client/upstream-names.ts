// What an upstream server's tools are called here. A name follows from the server's prefix and the tool's own name alone: it is the same
// in each listing and after a restart, and no other tool of that server can come to have it.
import { createHash } from "node:crypto";

/** Names that every model's API takes: OpenAI's rule is the narrowest. */
const MAX_ALIAS_CHARS = 64;
/** With a prefix that leaves no room in those; the API's edge shortens it once more. */
const MAX_LONG_ALIAS_CHARS = 128;
const MAX_SHORT_PREFIX_CHARS = 40;
const PLAIN = /^[A-Za-z0-9_-]+$/;
/** Of a SHA-256, in hexadecimal. */
const HASH_CHARS = 12;
/** What an alias with a hash ends in. A tool whose own name looks so gets a hash, too: so none can take another's place. */
const HASHED = new RegExp(`_[0-9a-f]{${HASH_CHARS}}$`);
/** Between the server's name and its tool's. */
const SEPARATOR = "__";

/** `prefix` and the tool's name where that can stand; else what can of it, and a hash. */
export function toToolName(prefix: string, name: string): string {
  const plain = `${prefix}${name}`;
  const maxChars = prefix.length > MAX_SHORT_PREFIX_CHARS ? MAX_LONG_ALIAS_CHARS : MAX_ALIAS_CHARS;
  // `a` with a tool `b__c` is not `a__b` with a tool `c`, nor `a` with `_b` what `a_` with `b` is.
  const isAmbiguous = prefix.endsWith(SEPARATOR) && (name.startsWith("_") || name.includes(SEPARATOR));
  if (PLAIN.test(name) && plain.length <= maxChars && !isAmbiguous && !HASHED.test(plain)) return plain;
  // As JSON: half a surrogate pair is itself there, and not every other half.
  const hash = createHash("sha256")
    .update(JSON.stringify([prefix, name]))
    .digest("hex")
    .slice(0, HASH_CHARS);
  const room = Math.max(0, maxChars - prefix.length - 1 - HASH_CHARS);
  const legible = name.slice(0, room).replaceAll(/[^A-Za-z0-9_-]/g, "_");
  return `${prefix}${legible}_${hash}`;
}

/** Names here, each with the server's own. Two whose hashes are alike, which takes looking for, are both left out. */
export function toToolNames(prefix: string, names: Iterable<string>): ReadonlyMap<string, string> {
  const tools = new Map<string, string>();
  const clashing = new Set<string>();
  for (const name of new Set(names)) {
    const alias = toToolName(prefix, name);
    if (tools.has(alias)) clashing.add(alias);
    tools.set(alias, name);
  }
  for (const alias of clashing) tools.delete(alias);
  return tools;
}
