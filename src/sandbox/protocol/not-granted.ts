// The message of an error about a capability that was not granted. The guest's prelude and the host both write it.

/** Returns the name of the grant that gives a member of ctx: `onRollback` comes with `waitFor`. */
export const grantOf = (member: string): string => (member === "onRollback" ? "waitFor" : member);

/** Returns the message for a capability that is not granted. `use` is the expression that the tool used. */
export const notGranted = (use: string, capability: string): string =>
  `${use} is not granted to this tool; request it with capabilities: { ${capability}: true } and let the host grant it (grant: ["${capability}"])`;
