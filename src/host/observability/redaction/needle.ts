// A text to look for in a stream, unit by unit (Knuth, Morris, Pratt): the time is the stream's length whatever is in it.
import { ESCAPES, type Step, unescapeAt } from "./unescape.ts";

/** Returns what stands in the place of what was found: text, or its bytes, which are not copied. It may throw. */
export type Replace = (found: string) => string | Buffer;

/** Units taken for one another: what each of the first 256 counts as. */
type Fold = Uint8Array;
const foldOf = (pairs: Iterable<readonly [string, string]>): Fold => {
  const fold = Uint8Array.from({ length: 256 }, (_, unit) => unit);
  for (const [from, to] of pairs) fold[from.charCodeAt(0)] = to.charCodeAt(0);
  return fold;
};
const SAME: Fold = foldOf([]);
const LOWER_CASE: Fold = foldOf([..."ABCDEF"].map((sign) => [sign, sign.toLowerCase()] as const));
/** base64url's two signs, and a plus that was read as a space. */
const BASE64_SIGN: Fold = foldOf([
  ["-", "+"],
  [" ", "+"],
  ["_", "/"],
]);

export class Needle {
  readonly units: Uint16Array;
  readonly replace: Replace;
  /** Looks at a text's bytes as they are; else at what they are when they are unescaped. */
  readonly isRaw: boolean;
  readonly #fold: Fold;
  /** How much is still found when the next unit is not the one that was wanted. */
  readonly #fallback: Uint16Array;

  constructor(units: ArrayLike<number>, replace: Replace, { isRaw = false, fold = SAME } = {}) {
    this.units = new Uint16Array(units.length);
    // Not Uint16Array.from(units, fold): it takes ten times as long, and a host may state 64 secrets of 8 KiB.
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

  /** How much of it is found, when so much was and this unit comes. */
  next(found: number, unit: number): number {
    const folded = this.#fold[unit] ?? unit;
    if (found === 0) return folded === this.units[0] ? 1 : 0;
    return this.#advance(found === this.units.length ? (this.#fallback[found] ?? 0) : found, folded);
  }

  /** Whether it may begin with this unit. */
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
  // Before an escape of something else it would be one run of backslashes with that.
  while (units.length > 1 && units.at(-1) === BACKSLASH) units.pop();
  return units;
}

/** Beside bytes of something else, signs at both ends hold bits of that: they are left out. */
function base64(bytes: Uint8Array, offset: number): Uint8Array {
  const signs = Buffer.concat([Buffer.alloc(offset), bytes]).toString("base64");
  return Buffer.from(signs.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6)));
}

/** A text as it is, and with any of its characters escaped. */
export function plainNeedles(text: string, replace: Replace): Needle[] {
  const bytes = Buffer.from(text);
  const units = text
    .replaceAll("+", " ")
    .replaceAll(/\\+/g, "\\")
    .replace(/(?<=.)\\$/s, "");
  // Escapes that name characters: where they are not ASCII, those are no bytes.
  const codes = Array.from({ length: units.length }, (_, index) => units.charCodeAt(index));
  const forms = [unescaped(bytes), ...(codes.some((code) => code > 127) ? [codes] : [])];
  return [new Needle(bytes, replace, { isRaw: true }), ...forms.map((form) => new Needle(form, replace))];
}

/** A text that must not be seen, in all the forms that are looked for. */
export function secretNeedles(text: string, replace: Replace): Needle[] {
  const bytes = Buffer.from(text);
  const turned = [...text].reverse().join("");
  return [
    ...plainNeedles(text, replace),
    ...plainNeedles(turned, replace),
    new Needle(Buffer.from(bytes.toString("hex")), replace, { fold: LOWER_CASE }),
    ...[0, 1, 2].map((offset) => new Needle(base64(bytes, offset), replace, { fold: BASE64_SIGN })),
  ];
}

/** Needles that are looked for together. */
export class NeedleSet {
  readonly raw: readonly Needle[];
  readonly unescaped: readonly Needle[];
  /** By unit: some needle may begin with it, or an escape does. */
  readonly isBeginning = new Uint8Array(256);

  constructor(needles: readonly Needle[]) {
    this.raw = needles.filter((needle) => needle.isRaw);
    this.unescaped = needles.filter((needle) => !needle.isRaw);
    for (let unit = 0; unit < 256; unit += 1) {
      // A plus is read as a space where texts are unescaped.
      const begins = needles.some((needle) => needle.begins(unit) || (unit === 0x2b && needle.begins(0x20)));
      this.isBeginning[unit] = begins || ESCAPES.has(unit) ? 1 : 0;
    }
  }

  /** How many needles there are. */
  get size(): number {
    return this.raw.length + this.unescaped.length;
  }

  get isEmpty(): boolean {
    return this.size === 0;
  }
}
