// The names of Glovebox's own capabilities. The console imports them, too, so this file imports nothing.

/** Names of Glovebox's own capabilities, which a host's capability cannot have. */
export const BUILTIN_CAPABILITY_NAMES = [
  "log",
  "fetch",
  "secrets",
  "kv",
  "tools",
  "elicit",
  "sample",
  "roots",
  "waitFor",
  "onRollback",
] as const;

/** Glovebox's own capabilities that a host grants to a tool by name. The others belong to every tool. */
export const GRANTABLE_CAPABILITY_NAMES = BUILTIN_CAPABILITY_NAMES.filter(
  (name): name is Exclude<typeof name, "log" | "onRollback"> => name !== "log" && name !== "onRollback",
);
