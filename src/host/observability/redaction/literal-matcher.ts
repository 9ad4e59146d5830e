// Searches a stream for all literals of one kind: in its original bytes, or in its unescaped ones. The state is kept across chunks, so that
// no byte is read twice: a server that sends single bytes costs no more than one that sends everything at once.
import type { SecretLiteral, SecretLiteralSet } from "./secret-literal.ts";
import { type Step, unescapeAt } from "./unescape.ts";

/** A literal that was found. Offsets count from the start of the stream. */
export interface Match {
  readonly start: number;
  readonly end: number;
  readonly literal: SecretLiteral;
}

export class LiteralMatcher {
  readonly #literals: readonly SecretLiteral[];
  readonly #isBeginning: Uint8Array;
  readonly #isRaw: boolean;
  /** For each literal, the length of the match that ends at the last byte. */
  readonly #found: Uint16Array;
  /** Ring buffer of the offsets of the last units. Created when needed: in original bytes, each unit is one byte. */
  #starts: Float64Array | undefined;
  readonly #step: Step = { unit: 0, end: 0 };
  #units = 0;
  #isActive = false;
  /** Offset of the next byte to read. */
  #at = 0;

  constructor(literals: SecretLiteralSet, isRaw: boolean) {
    this.#literals = isRaw ? literals.raw : literals.unescaped;
    this.#isBeginning = literals.isBeginning;
    this.#isRaw = isRaw;
    this.#found = new Uint16Array(this.#literals.length);
  }

  /**
   * Continues reading and returns the matches that end in the text, ordered by their ends.
   * @param text bytes of the stream, starting at offset `base`
   * @param until offset up to which to read; an escape may extend beyond it
   * @param isWhole whether the stream ends with the text
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
      this.#starts ??= new Float64Array(ringSize(this.#literals));
      this.#starts[this.#units % this.#starts.length] = this.#at;
      this.#units += 1;
    }
    this.#isActive = false;
    for (let index = 0; index < this.#literals.length; index += 1) {
      const literal = this.#literals[index] as SecretLiteral;
      const before = this.#found[index] as number;
      const length = literal.next(before, unit);
      if (length === 0 && before === 0) continue;
      this.#found[index] = length;
      if (length > 0) this.#isActive = true;
      if (length === literal.units.length) matches.push({ start: this.#startOf(length, end), end, literal });
    }
  }

  /** Returns the offset where the last `units` units begin; the last one ends at `end`. */
  #startOf(units: number, end: number): number {
    return this.#starts === undefined ? end - units : (this.#starts[(this.#units - units) % this.#starts.length] ?? 0);
  }

  /** Offset of the earliest incomplete match. Complete matches do not count, because they are reported. */
  get openAt(): number {
    let longest = 0;
    for (let index = 0; index < this.#found.length; index += 1) {
      const length = this.#found[index] ?? 0;
      if (length > longest && length !== this.#literals[index]?.units.length) longest = length;
    }
    return longest === 0 ? this.#at : Math.min(this.#at, this.#startOf(longest, this.#at));
  }

  /** Skips to the offset if reading has not reached it: all bytes before it were passed on. */
  skipTo(offset: number): void {
    if (this.#at >= offset) return;
    this.#at = offset;
    this.#found.fill(0);
    this.#isActive = false;
  }
}

/** Returns the size of the ring buffer, which fits the longest literal. */
const ringSize = (literals: readonly SecretLiteral[]): number =>
  literals.reduce((longest, { units }) => Math.max(longest, units.length), 0) + 1;
