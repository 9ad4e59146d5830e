// Names of tools as hosts and authors choose them: a whole name, or its beginning with a `*` behind.

export const matchesName = (pattern: string, name: string): boolean =>
  pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : pattern === name;
