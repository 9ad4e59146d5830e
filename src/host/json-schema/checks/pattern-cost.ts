// Computes an upper bound for the backtracking steps of a regex from its source. The bound is never too low, but may be too high. It is
// Infinity for look-around, back references and ambiguous loops.

export interface PatternCost {
  /** A string of n characters takes at most about `factor * (n + 1) ** degree` steps. */
  readonly factor: number;
  readonly degree: number;
  /** Nesting depth of groups. */
  readonly depth: number;
  /** Length of the pattern after its counted repeats are unrolled. */
  readonly unrolled: number;
}

/** A set of characters: bits 0-127 are ASCII, bit 128 is everything else. */
type CharSet = bigint;
const ALL_CHARS: CharSet = (1n << 129n) - 1n;
const NON_ASCII: CharSet = 1n << 128n;
const ASCII = String.fromCharCode(...Array(128).keys());
/** Largest repeat count that is treated as unrolled. Higher counts are treated as loops. */
const MAX_WRITTEN_OUT = 16;
/** Number of distinct character classes that are analysed. Others count as "any character". */
const MAX_CLASSES = 64;

/** One piece of a pattern: an atom, a group or a sequence. */
interface Piece {
  readonly factor: number;
  readonly degree: number;
  readonly chars: CharSet;
  /** Set if the piece always begins (or ends) with one character of this set. */
  readonly first: CharSet | undefined;
  readonly last: CharSet | undefined;
  /** Characters that the piece may contain after the first one (or before the last one). */
  readonly afterFirst: CharSet;
  readonly beforeLast: CharSet;
  readonly unrolled: number;
}

const EMPTY: Piece = {
  factor: 1,
  degree: 0,
  chars: 0n,
  first: undefined,
  last: undefined,
  afterFirst: 0n,
  beforeLast: 0n,
  unrolled: 0,
};
const UNKNOWN: Piece = { ...EMPTY, factor: Number.POSITIVE_INFINITY, chars: ALL_CHARS };

const atom = (chars: CharSet): Piece => ({ ...EMPTY, chars, first: chars, last: chars, unrolled: 1 });

export function estimateCost(source: string): PatternCost {
  return new CostReader(source).read();
}

class CostReader {
  readonly #source: string;
  #at = 0;
  #depth = 0;
  #deepest = 0;
  readonly #sets = new Map<string, CharSet>();

  constructor(source: string) {
    this.#source = source;
  }

  read(): PatternCost {
    const whole = this.#alternatives();
    // Without a "^" the engine tries to match at every index.
    const anchored = this.#source.startsWith("^") && !this.#source.includes("|");
    const anchoredGroup = /^\^\((?:\?:)?[^()]*\)\$$/.test(this.#source);
    const understood = this.#at >= this.#source.length;
    return {
      factor: understood ? whole.factor : Number.POSITIVE_INFINITY,
      degree: whole.degree + (anchored || anchoredGroup ? 0 : 1),
      depth: this.#deepest,
      unrolled: whole.unrolled,
    };
  }

  #alternatives(): Piece {
    const options = [this.#sequence()];
    while (this.#source[this.#at] === "|") {
      this.#at += 1;
      options.push(this.#sequence());
    }
    const [only] = options;
    if (options.length === 1 && only !== undefined) return only;
    return options.reduce((sum, option) => ({
      ...EMPTY,
      factor: sum.factor + option.factor,
      degree: Math.max(sum.degree, option.degree),
      chars: sum.chars | option.chars,
      unrolled: sum.unrolled + option.unrolled,
    }));
  }

  #sequence(): Piece {
    let whole = EMPTY;
    let isFirst = true;
    while (this.#at < this.#source.length && this.#source[this.#at] !== "|" && this.#source[this.#at] !== ")") {
      const piece = this.#quantified(this.#piece());
      if (piece.chars === 0n && piece.factor === 1) continue;
      whole = join(whole, piece, isFirst);
      isFirst = false;
    }
    return whole;
  }

  /** Parses one atom, class, group or assertion, without its quantifier. */
  #piece(): Piece {
    const char = this.#source[this.#at] ?? "";
    if (char === "(") return this.#group();
    if (char === "^" || char === "$") {
      this.#at += 1;
      return EMPTY;
    }
    if (char === "[") return this.#take(/\[(?:\\[\s\S]|[^\]\\])*\]/y);
    if (char !== "\\") return this.#take(/[\s\S]/uy);
    const next = this.#source[this.#at + 1] ?? "";
    if (next === "b" || next === "B") {
      this.#at += 2;
      return EMPTY;
    }
    if (next === "k" || (next >= "1" && next <= "9")) {
      this.#at += 2;
      return UNKNOWN;
    }
    return this.#take(/\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c[A-Za-z]|[\s\S])/uy);
  }

  #group(): Piece {
    const opening = match(/\((?:\?(?:[:=!]|<[=!]|<[^>]*>|[a-z-]*:))?/y, this.#source, this.#at);
    this.#at += opening.length;
    this.#depth += 1;
    this.#deepest = Math.max(this.#deepest, this.#depth);
    // pattern.ts rejects deeper patterns. The limit here only protects the stack of this parser.
    const inner = this.#depth > 100 ? UNKNOWN : this.#alternatives();
    this.#depth -= 1;
    if (this.#source[this.#at] === ")") this.#at += 1;
    const plain = opening === "(" || opening === "(?:" || /^\(\?<[^=!]/.test(opening);
    return plain ? inner : { ...UNKNOWN, unrolled: inner.unrolled };
  }

  #take(token: RegExp): Piece {
    const text = match(token, this.#source, this.#at);
    this.#at += Math.max(1, text.length);
    return atom(this.#charSet(text));
  }

  #quantified(piece: Piece): Piece {
    const text = match(/(?:[*+?]|\{\d+(?:,\d*)?\})\??/y, this.#source, this.#at);
    if (text === "") return piece;
    this.#at += text.length;
    const counts = /^\{(\d+)(,?)(\d*)\}/.exec(text);
    if (counts === null) {
      return repeat(piece, text[0] === "+" ? 1 : 0, text[0] === "?" ? 1 : Number.POSITIVE_INFINITY);
    }
    const min = Number(counts[1]);
    const max = counts[2] === "" ? min : counts[3] === "" ? Number.POSITIVE_INFINITY : Number(counts[3]);
    return repeat(piece, min, max);
  }

  /** Returns the characters that an atom matches, by testing each. Results are cached by atom. */
  #charSet(text: string): CharSet {
    const known = this.#sets.get(text);
    if (known !== undefined) return known;
    const set = this.#sets.size >= MAX_CLASSES ? ALL_CHARS : probeCharSet(text);
    this.#sets.set(text, set);
    return set;
  }
}

/** Tests which characters an atom matches. A single ASCII literal needs no RegExp. */
function probeCharSet(text: string): CharSet {
  const code = text.charCodeAt(0);
  if (text.length === 1 && text !== "." && code < 128) return 1n << BigInt(code);
  // Unicode classes are large and slow to build, so they count as any character.
  if (/\\[pP]/.test(text)) return ALL_CHARS;
  let set = matchesOnlyAscii(text) ? 0n : NON_ASCII;
  try {
    for (const char of ASCII.match(new RegExp(text, "gu")) ?? []) set |= 1n << BigInt(char.charCodeAt(0));
  } catch {
    return ALL_CHARS;
  }
  return set;
}

/** Tells whether an atom is an escape such as `\-` or `\.`, or a class of ASCII characters and such escapes that is not negated. */
function matchesOnlyAscii(text: string): boolean {
  return (
    /^\[(?!\^)(?:[\x20-\x5b\x5d-\x7e]|\\[dw\-.+*/?^$|()[\]{}\\])*\]$/.test(text) ||
    /^\\[dw\-.+*/?^$|()[\]{}\\]$/.test(text)
  );
}

/** Returns the match of a sticky pattern at an index; "" if there is none. */
function match(pattern: RegExp, source: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(source)?.[0] ?? "";
}

function join(left: Piece, right: Piece, isFirst: boolean): Piece {
  return {
    factor: left.factor * right.factor,
    degree: left.degree + right.degree,
    chars: left.chars | right.chars,
    first: isFirst ? right.first : left.first,
    last: right.last,
    afterFirst: isFirst ? right.afterFirst : left.afterFirst | right.chars,
    beforeLast: left.chars | right.beforeLast,
    unrolled: left.unrolled + right.unrolled,
  };
}

function repeat(piece: Piece, min: number, max: number): Piece {
  const isFixed = piece.factor === 1 && piece.degree === 0;
  const unrolled = piece.unrolled * Math.max(min, Number.isFinite(max) ? max : 1, 1);
  // A fixed repeat of a piece without alternatives has no alternatives either, and keeps its first and last characters.
  if (isFixed && min === max && min > 0) {
    return { ...piece, afterFirst: piece.chars, beforeLast: piece.chars, unrolled };
  }
  const loose: Piece = { ...EMPTY, chars: piece.chars, unrolled };
  if (max <= MAX_WRITTEN_OUT) {
    const factor = (max - min + 1) * piece.factor ** max;
    return { ...loose, factor, degree: piece.degree * max };
  }
  if (isFixed || isDelimited(piece)) return { ...loose, degree: 1 + piece.degree };
  return { ...loose, factor: Number.POSITIVE_INFINITY };
}

/** Tells whether a loop over the piece can match in only one way, because a delimiter separates its rounds: `-[a-z]+` or `[a-z]+\.`. */
function isDelimited(piece: Piece): boolean {
  if (piece.factor !== 1 || piece.degree > 1) return false;
  const byFirst = piece.first !== undefined && (piece.first & piece.afterFirst) === 0n;
  const byLast = piece.last !== undefined && (piece.last & piece.beforeLast) === 0n;
  return byFirst || byLast;
}
