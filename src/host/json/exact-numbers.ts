// Finds numbers that a person has written and that would be sent as others. JSON carries them as digits, but JavaScript keeps a number of 64
// bits: about 16 digits of it, and integers without gaps up to 2^53. The command line and the forms of the console use it.

const DECIMAL = /^([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d+))?$/i;
/** What a text with such a number contains. */
const MAY_CHANGE = /[\d.]{16}|\de/i;
/** Longest text that a message quotes. */
const MAX_QUOTED = 60;

interface Decimal {
  readonly digits: string;
  /** Power of ten of the last digit. */
  readonly exponent: number;
}

/** Reads digits, without the sign and without zeros at both ends; undefined for a text that is not a decimal number. */
function toDecimal(text: string): Decimal | undefined {
  const [, , whole = "", fraction = "", power = "0"] = DECIMAL.exec(text.trim()) ?? [];
  if (whole === "" && fraction === "") return undefined;
  const all = `${whole}${fraction}`.replace(/^0+/, "");
  const digits = all.replace(/0+$/, "");
  return { digits, exponent: digits === "" ? 0 : Number(power) - fraction.length + all.length - digits.length };
}

/** A number as a person has written it. */
export interface WrittenNumber {
  /** The number that is sent. */
  readonly value: number;
  /** Whether the written number has no fraction: `1.50e1` has none. */
  readonly isWhole: boolean;
  /** Whether the number that is sent has the digits that were written. */
  readonly isExact: boolean;
}

/** Returns undefined for a text that is not a decimal number. The value of one that is too large is infinite. */
export function readNumber(text: string): WrittenNumber | undefined {
  const written = toDecimal(text);
  if (written === undefined) return undefined;
  const value = Number(text);
  const sent = toDecimal(String(value));
  const isExact = written.digits === sent?.digits && written.exponent === sent.exponent;
  return { value, isWhole: written.exponent >= 0, isExact };
}

const shorten = (text: string): string => (text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED - 1)}…` : text);

/**
 * Returns what is wrong with a number that would be sent as another one. The last digits of a fraction do not matter;
 * those of an integer may name something.
 */
export function digitsIssueOf(text: string, { value, isWhole, isExact }: WrittenNumber): string | undefined {
  if (!Number.isFinite(value)) return `${shorten(text.trim())} is too large for a number`;
  if (!isWhole || isExact) return undefined;
  return `${shorten(text.trim())} would be sent as ${value}: a number keeps about 16 digits, a string all`;
}

/** Returns what is wrong with the first number of a JSON text that would be sent as another one. @throws {SyntaxError} for invalid JSON */
export function numberIssueOf(json: string): string | undefined {
  // A reviver takes several times as long as a parser without one.
  if (!MAY_CHANGE.test(json)) {
    JSON.parse(json);
    return undefined;
  }
  let issue: string | undefined;
  // Browsers that do not pass the source of a number report nothing.
  JSON.parse(json, (_key, value: unknown, context?: { readonly source?: string }) => {
    const { source } = context ?? {};
    if (typeof value !== "number" || source === undefined || issue !== undefined) return value;
    const written = readNumber(source);
    issue = written && digitsIssueOf(source, written);
    return value;
  });
  return issue;
}
