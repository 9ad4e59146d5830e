// Inserts text into a script and updates its source map.
import { decodedMappings, encodedMappings, type SourceMapSegment, TraceMap } from "@jridgewell/trace-mapping";

export interface Insertion {
  readonly at: number;
  /** Must not contain line breaks, so that lines keep their numbers. */
  readonly text: string;
  /** Order of insertions at the same offset: lowest first, then list order. */
  readonly rank: number;
}

const inOrder = (insertions: readonly Insertion[]): readonly Insertion[] =>
  [...insertions].sort((a, b) => a.at - b.at || a.rank - b.rank);

/** Returns for each line, counted from 0, the columns and lengths of the insertions. */
function columnsOf(
  code: string,
  insertions: readonly Insertion[],
): ReadonlyMap<number, [column: number, width: number][]> {
  const byLine = new Map<number, [number, number][]>();
  let line = 0;
  let lineStart = 0;
  for (const { at, text } of insertions) {
    for (let end = code.indexOf("\n", lineStart); end >= 0 && end < at; end = code.indexOf("\n", lineStart)) {
      lineStart = end + 1;
      line += 1;
    }
    const columns = byLine.get(line) ?? [];
    columns.push([at - lineStart, text.length]);
    byLine.set(line, columns);
  }
  return byLine;
}

/** Shifts the segments of a line. An insertion at a segment's own column goes before it. */
function shiftLine(
  segments: SourceMapSegment[],
  columns: readonly [column: number, width: number][],
): SourceMapSegment[] {
  let next = 0;
  let shift = 0;
  return segments.map(([column, ...rest]) => {
    for (; next < columns.length && (columns[next]?.[0] ?? 0) <= column; next += 1) shift += columns[next]?.[1] ?? 0;
    return [column + shift, ...rest] as SourceMapSegment;
  });
}

export interface MappedScript {
  readonly code: string;
  /** JSON text. */
  readonly sourceMap: string;
}

export function insertText({ code, sourceMap }: MappedScript, insertions: readonly Insertion[]): MappedScript {
  const ordered = inOrder(insertions);
  const pieces: string[] = [];
  let from = 0;
  for (const { at, text } of ordered) {
    pieces.push(code.slice(from, at), text);
    from = at;
  }
  pieces.push(code.slice(from));
  const fields = JSON.parse(sourceMap) as ConstructorParameters<typeof TraceMap>[0] & object;
  const byLine = columnsOf(code, ordered);
  const mappings = decodedMappings(new TraceMap(fields)).map((segments, line) => {
    const columns = byLine.get(line);
    return columns === undefined ? [...segments] : shiftLine([...segments], columns);
  });
  const shifted = new TraceMap({ ...(fields as object), mappings } as ConstructorParameters<typeof TraceMap>[0]);
  return {
    code: pieces.join(""),
    sourceMap: JSON.stringify({ ...(fields as object), mappings: encodedMappings(shifted) }),
  };
}
