// Creates the aliases of an upstream server's tools. An alias depends on the server's prefix and the tool's own name only, so it is the same
// in each listing and after a restart, and cannot pass to another tool of the server.
import { createHash } from "node:crypto";

/** Length that all model APIs accept. OpenAI's limit is the lowest. */
const MAX_ALIAS_LENGTH = 64;
/** Limit for aliases with a long prefix. The adapter of the model's API shortens these once more. */
const MAX_LONG_ALIAS_LENGTH = 128;
const MAX_SHORT_PREFIX_LENGTH = 40;
const PLAIN = /^[A-Za-z0-9_-]+$/;
/** Length of the hash: the first hexadecimal digits of a SHA-256. */
const HASH_LENGTH = 12;
/** Matches the end of an alias with a hash. A tool whose own name matches also gets a hash, so that it cannot imitate another alias. */
const HASHED = new RegExp(`_[0-9a-f]{${HASH_LENGTH}}$`);
/** Separates the name of the server from that of the tool. */
const SEPARATOR = "__";

/** Returns the prefix and the tool's name if they form a valid and unambiguous alias; otherwise the valid part of them and a hash. */
export function toToolName(prefix: string, name: string): string {
  const plain = `${prefix}${name}`;
  const maxChars = prefix.length > MAX_SHORT_PREFIX_LENGTH ? MAX_LONG_ALIAS_LENGTH : MAX_ALIAS_LENGTH;
  // Server `a` with tool `b__c` must differ from server `a__b` with tool `c`, and `a` with `_b` from `a_` with `b`.
  const isAmbiguous = prefix.endsWith(SEPARATOR) && (name.startsWith("_") || name.includes(SEPARATOR));
  if (PLAIN.test(name) && plain.length <= maxChars && !isAmbiguous && !HASHED.test(plain)) return plain;
  // JSON keeps different lone surrogates different, which UTF-8 does not.
  const hash = createHash("sha256")
    .update(JSON.stringify([prefix, name]))
    .digest("hex")
    .slice(0, HASH_LENGTH);
  const room = Math.max(0, maxChars - prefix.length - 1 - HASH_LENGTH);
  const legible = name.slice(0, room).replaceAll(/[^A-Za-z0-9_-]/g, "_");
  return `${prefix}${legible}_${hash}`;
}

/** Returns the server's tool names by alias. If the hashes of two names collide, which only an attacker would cause, both are omitted. */
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
