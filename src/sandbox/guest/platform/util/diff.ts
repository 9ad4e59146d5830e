// diff() of node:util: the shortest edit between two texts or lists of texts, by Myers' algorithm, in Node's order of edits.
import { checkString } from "../shared/node-error.ts";

type Sequence = string | readonly string[];
/** 1 for what only `actual` has, -1 for what only `expected` has, 0 for what both have. */
type Edit = [operation: -1 | 0 | 1, value: string];

function checkSequence(value: unknown, name: string): asserts value is Sequence {
  if (!Array.isArray(value)) return checkString(value, name);
  for (const [index, item] of value.entries()) checkString(item, `${name}[${index}]`);
}

/** How far each diagonal reached with a number of edits: of the diagonals from `-first` on. */
interface Reach {
  readonly first: number;
  readonly ends: Int32Array;
}
const endOf = ({ first, ends }: Reach, diagonal: number): number => ends[diagonal + first] ?? 0;

function comesFromBelow(reach: Reach, diagonal: number, edits: number): boolean {
  if (diagonal === -edits) return true;
  return diagonal !== edits && endOf(reach, diagonal - 1) < endOf(reach, diagonal + 1);
}

/** Returns what each number of edits started from. Only reached diagonals are kept, where Node keeps all of them for each number. */
function findPath(actual: Sequence, expected: Sequence): Reach[] {
  const max = actual.length + expected.length;
  const trace: Reach[] = [];
  let reach: Reach = { first: 1, ends: new Int32Array(3) };
  for (let edits = 0; edits <= max; edits += 1) {
    trace.push(reach);
    const ends = new Int32Array(2 * edits + 5);
    const next: Reach = { first: edits + 2, ends };
    ends.set(reach.ends, next.first - reach.first);
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let x = comesFromBelow(reach, diagonal, edits) ? endOf(reach, diagonal + 1) : endOf(reach, diagonal - 1) + 1;
      while (x < actual.length && x - diagonal < expected.length && actual[x] === expected[x - diagonal]) x += 1;
      ends[diagonal + next.first] = x;
      if (x >= actual.length && x - diagonal >= expected.length) return trace;
    }
    reach = next;
  }
  return trace;
}

/** @throws {TypeError} ERR_INVALID_ARG_TYPE */
export function diff(actual: unknown, expected: unknown): Edit[] {
  if (actual === expected) return [];
  checkSequence(actual, "actual");
  checkSequence(expected, "expected");
  const trace = findPath(actual, expected);
  const edits: Edit[] = [];
  let x = actual.length;
  let y = expected.length;
  for (let count = trace.length - 1; count >= 0; count -= 1) {
    const reach = trace[count] as Reach;
    const diagonal = x - y;
    const previous = comesFromBelow(reach, diagonal, count) ? diagonal + 1 : diagonal - 1;
    const start = endOf(reach, previous);
    while (x > start && y > start - previous) {
      x -= 1;
      y -= 1;
      edits.push([0, actual[x] as string]);
    }
    if (count === 0) break;
    if (x > start) {
      x -= 1;
      edits.push([1, actual[x] as string]);
    } else {
      y -= 1;
      edits.push([-1, expected[y] as string]);
    }
  }
  return edits.reverse();
}
