// Replaces needles in bytes that come in chunks. What may be the beginning of one is held back until the next chunk tells.
import { setImmediate as turn } from "node:timers/promises";
import type { Needle, NeedleSet } from "./needle.ts";
import { type Step, unescapeAt } from "./unescape.ts";

const EMPTY = Buffer.alloc(0);

interface Match {
  readonly start: number;
  readonly end: number;
  readonly needle: Needle;
}

/** What one look through a text has found. */
interface Findings {
  readonly matches: readonly Match[];
  /** From here on something may have begun that the text does not end. */
  readonly openAt: number;
}

/** One stream's; a new one for each. */
export class StreamFilter {
  readonly #needles: NeedleSet;
  #held: Buffer = EMPTY;

  constructor(needles: NeedleSet) {
    this.#needles = needles;
  }

  /** What can be passed on now: it may be empty. Throws what a needle's replacement throws. */
  push(chunk: Uint8Array): Buffer {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    if (this.#needles.isEmpty) return bytes;
    const text = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes]);
    const { matches, openAt } = this.#find(text, false);
    this.#held = Buffer.from(text.subarray(openAt));
    return write(text, matches, openAt);
  }

  /** What was held back, when no more will come. */
  end(): Buffer {
    const text = this.#held;
    this.#held = EMPTY;
    return text.length === 0 ? EMPTY : write(text, this.#find(text, true).matches, text.length);
  }

  #find(text: Buffer, isWhole: boolean): Findings {
    const raw = this.#follow(text, isWhole, true);
    const read = this.#follow(text, isWhole, false);
    const matches = merge([...raw.matches, ...read.matches]);
    const openAt = isWhole ? text.length : Math.max(Math.min(raw.openAt, read.openAt), matches.at(-1)?.end ?? 0);
    return { matches, openAt };
  }

  /** All needles of one kind, over the bytes as they are or as they are unescaped. */
  #follow(text: Buffer, isWhole: boolean, isRaw: boolean): Findings {
    const { isBeginning } = this.#needles;
    const needles = isRaw ? this.#needles.raw : this.#needles.unescaped;
    const found = new Uint16Array(needles.length);
    const matches: Match[] = [];
    const starts = new Int32Array(text.length);
    const step: Step = { unit: 0, end: 0 };
    let count = 0;
    let isActive = false;
    for (let at = 0; at < text.length; at = step.end) {
      const byte = text[at] ?? 0;
      step.unit = byte;
      step.end = at + 1;
      if (!isActive && isBeginning[byte] === 0) continue;
      if (!isRaw && !unescapeAt(text, at, isWhole, step))
        return { matches, openAt: earliest(found, starts, count, at) };
      const { unit } = step;
      starts[count] = at;
      count += 1;
      isActive = false;
      for (let index = 0; index < needles.length; index += 1) {
        const needle = needles[index] as Needle;
        const before = found[index] as number;
        const length = needle.next(before, unit);
        if (length === 0 && before === 0) continue;
        found[index] = length;
        if (length > 0) isActive = true;
        if (length === needle.units.length) matches.push({ start: starts[count - length] ?? 0, end: step.end, needle });
      }
    }
    return { matches, openAt: earliest(found, starts, count, text.length, needles) };
  }
}

/** Where the longest beginning of a needle has begun, or `otherwise`. One that is whole is a match, and its end no beginning. */
function earliest(
  found: Uint16Array,
  starts: Int32Array,
  count: number,
  otherwise: number,
  needles: readonly Needle[] = [],
): number {
  let longest = 0;
  for (let index = 0; index < found.length; index += 1) {
    const length = found[index] ?? 0;
    if (length > longest && length !== needles[index]?.units.length) longest = length;
  }
  return longest === 0 ? otherwise : Math.min(otherwise, starts[count - longest] ?? 0);
}

/** Overlapping ones are one, with the first one's replacement. */
function merge(matches: readonly Match[]): Match[] {
  const merged: Match[] = [];
  for (const match of matches.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    const last = merged.at(-1);
    if (last === undefined || match.start >= last.end) merged.push(match);
    else if (match.end > last.end) merged[merged.length - 1] = { ...last, end: match.end };
  }
  return merged;
}

function write(text: Buffer, matches: readonly Match[], until: number): Buffer {
  if (matches.length === 0) return text.subarray(0, until);
  const parts: Buffer[] = [];
  let from = 0;
  for (const { start, end, needle } of matches) {
    parts.push(text.subarray(from, start), Buffer.from(needle.replace(text.toString("latin1", start, end))));
    from = end;
  }
  return Buffer.concat([...parts, text.subarray(from, until)]);
}

/** Looked through in one turn of the event loop. */
const SLICE_BYTES = 64 * 1024;

/** Many bytes of a stream, over several turns: what can be passed on of them. */
export async function filterBytes(filter: StreamFilter, bytes: Buffer): Promise<Buffer> {
  if (bytes.length <= SLICE_BYTES) return filter.push(bytes);
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
    parts.push(filter.push(bytes.subarray(at, at + SLICE_BYTES)));
    await turn();
  }
  return Buffer.concat(parts);
}

/** A whole text at once. */
export function filterText(text: string, needles: NeedleSet): string {
  if (needles.isEmpty) return text;
  const bytes = Buffer.from(text);
  const filter = new StreamFilter(needles);
  const written = Buffer.concat([filter.push(bytes), filter.end()]);
  return written.equals(bytes) ? text : written.toString();
}
