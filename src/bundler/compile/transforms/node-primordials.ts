// Packages that contain Node's own internals, such as discord.js through its event emitter, copy the functions of all built-in objects while they
// load, as Node's primordials.js does. A tool has no Atomics unless its host grants it, so they copy the other objects only.

const COPIED_NAMES = /(["'])Atomics\1,\s*(?=(["'])JSON\2,\s*\2Math\2,\s*\2Proxy\2,\s*\2Reflect\2)/g;

/** Returns the text of a package's module whose copy of primordials.js does without Atomics. */
export function copyWithoutAtomics(contents: Buffer): Buffer {
  if (!contents.includes("Atomics")) return contents;
  const text = contents.toString("utf8");
  const changed = text.replace(COPIED_NAMES, "");
  return changed === text ? contents : Buffer.from(changed);
}
