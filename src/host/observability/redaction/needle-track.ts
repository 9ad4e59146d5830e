// Looks for all needles of one kind in a stream: in its bytes as they are, or as they are once they are unescaped. The state lasts from
// chunk to chunk, so that no byte is read twice: a server that sends byte by byte costs no more than one that sends all at once.
import type { Needle, NeedleSet } from "./needle.ts";
import { type Step, unescapeAt } from "./unescape.ts";

/** A needle that was found; offsets count from the beginning of the stream. */
export interface Match {
  readonly start: number;
  readonly end: number;
  readonly needle: Needle;
}

export class NeedleTrack {
  readonly #needles: readonly Needle[];
  readonly #isBeginning: Uint8Array;
  readonly #isRaw: boolean;
  /** For each needle, the length of the match that the last bytes form. */
  readonly #found: Uint16Array;
  /** A ring: where each of the last units begins in the stream. Made when it is needed: as raw bytes, each unit is one byte. */
  #starts: Float64Array | undefined;
  readonly #step: Step = { unit: 0, end: 0 };
  #units = 0;
  #isActive = false;
  /** Offset of the next byte to read. */
  #at = 0;

  constructor(needles: NeedleSet, isRaw: boolean) {
    this.#needles = isRaw ? needles.raw : needles.unescaped;
    this.#isBeginning = needles.isBeginning;
    this.#isRaw = isRaw;
    this.#found = new Uint16Array(this.#needles.length);
  }

  /**
   * Reads on and returns the matches that end there, in the order of their ends.
   * @param text bytes of the stream from offset `base` on
   * @param until offset up to which to read; an escape may reach beyond it
   * @param isWhole the stream ends with the text
   */
  follow(text: Buffer, base: number, until: number, isWhole: boolean): readonly Match[] {
    const matches: Match[] = [];
    const step = this.#step;
    while (this.#at < until) {
      const at = this.#at - base;
      const byte = text[at] ?? 0;
      step.unit = byte;
      step.end = at + 1;
      if (this.#isActive || this.#isBeginning[byte] !== 0) {
        if (!this.#isRaw && !unescapeAt(text, at, isWhole, step)) break;
        this.#take(step.unit, base + step.end, matches);
      }
      this.#at = base + step.end;
    }
    return matches;
  }

  #take(unit: number, end: number, matches: Match[]): void {
    if (!this.#isRaw) {
      this.#starts ??= new Float64Array(ringSize(this.#needles));
      this.#starts[this.#units % this.#starts.length] = this.#at;
      this.#units += 1;
    }
    this.#isActive = false;
    for (let index = 0; index < this.#needles.length; index += 1) {
      const needle = this.#needles[index] as Needle;
      const before = this.#found[index] as number;
      const length = needle.next(before, unit);
      if (length === 0 && before === 0) continue;
      this.#found[index] = length;
      if (length > 0) this.#isActive = true;
      if (length === needle.units.length) matches.push({ start: this.#startOf(length, end), end, needle });
    }
  }

  /** Returns the offset where the last `units` units begin; the last one ends at `end`. */
  #startOf(units: number, end: number): number {
    return this.#starts === undefined ? end - units : (this.#starts[(this.#units - units) % this.#starts.length] ?? 0);
  }

  /** Offset from which on a needle may have begun that is not complete. A complete one is a match, and its end starts no other. */
  get openAt(): number {
    let longest = 0;
    for (let index = 0; index < this.#found.length; index += 1) {
      const length = this.#found[index] ?? 0;
      if (length > longest && length !== this.#needles[index]?.units.length) longest = length;
    }
    return longest === 0 ? this.#at : Math.min(this.#at, this.#startOf(longest, this.#at));
  }

  /** Continues at the offset if it has not read as far, since everything before it was passed on. */
  skipTo(offset: number): void {
    if (this.#at >= offset) return;
    this.#at = offset;
    this.#found.fill(0);
    this.#isActive = false;
  }
}

/** Room for the longest needle. */
const ringSize = (needles: readonly Needle[]): number =>
  needles.reduce((longest, { units }) => Math.max(longest, units.length), 0) + 1;
