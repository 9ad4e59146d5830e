// Says where in a query something is, in words that a model and a person can both use.

const SHOWN_CHARACTERS = 20;

/** @example describePosition("foo.bar baz", 8) is `character 9, before "baz"` */
export function describePosition(query: string, offset: number): string {
  const before = query.slice(0, offset);
  const line = before.split("\n").length;
  const column = offset - before.lastIndexOf("\n");
  const place = line === 1 && !query.includes("\n") ? `character ${column}` : `line ${line}, character ${column}`;
  const rest = query.slice(offset).trim();
  if (rest === "") return `${place}, the end of the query`;
  const shown = rest.length > SHOWN_CHARACTERS ? `${rest.slice(0, SHOWN_CHARACTERS)}…` : rest;
  return `${place}, before ${JSON.stringify(shown)}`;
}
