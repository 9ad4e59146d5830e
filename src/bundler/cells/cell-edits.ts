// Changes to the text of a session cell, and the way back: from a location in the module to the one in the cell.

/** Text to insert if `start` equals `end`. Otherwise it replaces text of the same length, so that columns do not move. */
export interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** A location in the cell. Both numbers count from 0. */
export interface CellLocation {
  readonly line: number;
  readonly column: number;
}

const inOrder = (edits: readonly Edit[]): readonly Edit[] =>
  [...edits].sort((a, b) => a.start - b.start || a.end - b.end);

export function applyEdits(source: string, edits: readonly Edit[]): string {
  const pieces: string[] = [];
  let from = 0;
  for (const { start, end, text } of inOrder(edits)) {
    pieces.push(source.slice(from, start), text);
    from = end;
  }
  return [...pieces, source.slice(from)].join("");
}

/** Returns the offsets at which lines start. Line breaks are those that the engine counts. */
function lineStartsOf(text: string): readonly number[] {
  return [0, ...[...text.matchAll(/\r\n|[\n\r\u2028\u2029]/g)].map(({ 0: { length }, index }) => index + length)];
}

function locationOf(offset: number, lineStarts: readonly number[]): CellLocation {
  const line = lineStarts.findLastIndex((start) => start <= offset);
  return { line, column: offset - (lineStarts[line] ?? 0) };
}

/** Maps module locations back to the cell. A location inside an insertion maps to the point of the insertion. */
export function createLocationMapper(
  source: string,
  { edits, imports }: { readonly edits: readonly Edit[]; readonly imports: readonly { readonly start: number }[] },
): (location: CellLocation) => CellLocation | undefined {
  const lineStarts = lineStartsOf(source);
  const heads = imports.map(({ start }) => locationOf(start, lineStarts));
  const insertions = inOrder(edits)
    .filter(({ start, end }) => start === end)
    .map(({ start, text: { length } }) => ({ ...locationOf(start, lineStarts), length }));
  return ({ line: moduleLine, column: moduleColumn }) => {
    const head = heads[moduleLine];
    if (head !== undefined) return { line: head.line, column: head.column + moduleColumn };
    const line = moduleLine - heads.length - 1;
    if (line < 0 || line >= lineStarts.length) return undefined;
    let column = moduleColumn;
    for (const insertion of insertions) {
      if (insertion.line !== line || insertion.column > column) continue;
      column = Math.max(insertion.column, column - insertion.length);
    }
    return { line, column };
  };
}
