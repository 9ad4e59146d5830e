// A literal to search for in a stream, unit by unit (Knuth, Morris, Pratt): the time is linear in the stream's length for any content.
// As one regular expression of all escapes, a secret of 46 characters took 200 ms to compile, and some texts did not finish (measured).
import { ESCAPES, type Step, unescapeAt } from "./unescape.ts";

/** Returns the replacement of a match: text, or bytes, which are not copied. It may throw. */
export type Replace = (found: string) => string | Buffer;

/** Equivalence of units: maps each of the first 256 to the unit that it is compared as. */
type Fold = Uint8Array;
const foldOf = (pairs: Iterable<readonly [string, string]>): Fold => {
  const fold = Uint8Array.from({ length: 256 }, (_, unit) => unit);
  for (const [from, to] of pairs) fold[from.charCodeAt(0)] = to.charCodeAt(0);
  return fold;
};
const SAME: Fold = foldOf([]);
const LOWER_CASE: Fold = foldOf([..."ABCDEF"].map((sign) => [sign, sign.toLowerCase()] as const));
/** The two characters of base64url, and a plus that was decoded as a space. */
const BASE64_CHARACTER: Fold = foldOf([
  ["-", "+"],
  [" ", "+"],
  ["_", "/"],
]);

export class SecretLiteral {
  readonly units: Uint16Array;
  readonly replace: Replace;
  /** Whether the literal is compared with the original bytes instead of the unescaped ones. */
  readonly isRaw: boolean;
  readonly #fold: Fold;
  /** For each matched length, the length that still matches if the next unit differs. */
  readonly #fallback: Uint16Array;

  constructor(units: ArrayLike<number>, replace: Replace, { isRaw = false, fold = SAME } = {}) {
    this.units = new Uint16Array(units.length);
    // Uint16Array.from(units, fold) takes ten times as long, and a host may configure 64 secrets of 8 KiB.
    for (let index = 0; index < units.length; index += 1) {
      const unit = units[index] ?? 0;
      this.units[index] = fold[unit] ?? unit;
    }
    this.replace = replace;
    this.isRaw = isRaw;
    this.#fold = fold;
    this.#fallback = new Uint16Array(this.units.length + 1);
    for (let length = 1, found = 0; length < this.units.length; length += 1) {
      found = this.#advance(found, this.units[length] ?? 0);
      this.#fallback[length + 1] = found;
    }
  }

  #advance(found: number, folded: number): number {
    let length = found;
    while (length > 0 && this.units[length] !== folded) length = this.#fallback[length] ?? 0;
    return this.units[length] === folded ? length + 1 : 0;
  }

  /** Returns the matched length after this unit. */
  next(found: number, unit: number): number {
    const folded = this.#fold[unit] ?? unit;
    if (found === 0) return folded === this.units[0] ? 1 : 0;
    return this.#advance(found === this.units.length ? (this.#fallback[found] ?? 0) : found, folded);
  }

  /** Returns whether the literal starts with this unit. */
  begins(unit: number): boolean {
    return this.units[0] === (this.#fold[unit] ?? unit);
  }
}

const BACKSLASH = 0x5c;

function unescaped(bytes: Uint8Array): number[] {
  const units: number[] = [];
  const step: Step = { unit: 0, end: 0 };
  for (let at = 0; at < bytes.length; at = step.end) {
    unescapeAt(bytes, at, true, step);
    units.push(step.unit);
  }
  // Before another escape sequence, trailing backslashes would be part of the same run of backslashes.
  while (units.length > 1 && units.at(-1) === BACKSLASH) units.pop();
  return units;
}

/** Returns the base64 characters that depend on these bytes alone; characters at the ends may also encode neighboring bytes. */
function base64(bytes: Uint8Array, offset: number): Uint8Array {
  const signs = Buffer.concat([Buffer.alloc(offset), bytes]).toString("base64");
  return Buffer.from(signs.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6)));
}

/** Creates the literals of a text: as it is, and with any of its characters escaped. */
export function plainLiterals(text: string, replace: Replace): SecretLiteral[] {
  const bytes = Buffer.from(text);
  const units = text
    .replaceAll("+", " ")
    .replaceAll(/\\+/g, "\\")
    .replace(/(?<=.)\\$/s, "");
  // Escapes may name UTF-16 code units, which differ from the bytes for non-ASCII characters.
  const codes = Array.from({ length: units.length }, (_, index) => units.charCodeAt(index));
  const forms = [unescaped(bytes), ...(codes.some((code) => code > 127) ? [codes] : [])];
  return [new SecretLiteral(bytes, replace, { isRaw: true }), ...forms.map((form) => new SecretLiteral(form, replace))];
}

/** Creates the literals of a secret in all forms that are searched. */
export function createSecretLiterals(text: string, replace: Replace): SecretLiteral[] {
  const bytes = Buffer.from(text);
  const reversed = [...text].reverse().join("");
  return [
    ...plainLiterals(text, replace),
    ...plainLiterals(reversed, replace),
    new SecretLiteral(Buffer.from(bytes.toString("hex")), replace, { fold: LOWER_CASE }),
    ...[0, 1, 2].map((offset) => new SecretLiteral(base64(bytes, offset), replace, { fold: BASE64_CHARACTER })),
  ];
}

/** Literals that are searched together. */
export class SecretLiteralSet {
  readonly raw: readonly SecretLiteral[];
  readonly unescaped: readonly SecretLiteral[];
  /** By unit: whether a literal or an escape may start with it. */
  readonly isBeginning = new Uint8Array(256);

  constructor(literals: readonly SecretLiteral[]) {
    this.raw = literals.filter((literal) => literal.isRaw);
    this.unescaped = literals.filter((literal) => !literal.isRaw);
    for (let unit = 0; unit < 256; unit += 1) {
      // Unescaping reads a plus as a space.
      const begins = literals.some((literal) => literal.begins(unit) || (unit === 0x2b && literal.begins(0x20)));
      this.isBeginning[unit] = begins || ESCAPES.has(unit) ? 1 : 0;
    }
  }

  /** Number of literals. */
  get size(): number {
    return this.raw.length + this.unescaped.length;
  }

  get isEmpty(): boolean {
    return this.size === 0;
  }
}
