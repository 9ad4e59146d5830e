// Capabilities that have a type of their own; others take and return JSON.

export const OWN_CAPABILITIES = ["fetch", "secrets", "kv", "tools", "elicit", "sample", "roots", "waitFor"] as const;
