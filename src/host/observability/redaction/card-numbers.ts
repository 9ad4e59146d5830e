// Finds card numbers in a text by issuer prefix, length and check digit (ISO/IEC 7812, Luhn). Sixteen digits alone could also be an order
// number.
import type { SecretMatch } from "./secret-match.ts";

/** Prefix range and lengths of each issuer, from the issuers' published ranges. */
const ISSUERS: readonly (readonly [from: string, to: string, lengths: readonly number[]])[] = [
  ["4", "4", [13, 16, 19]], // Visa
  ["51", "55", [16]], // Mastercard
  ["2221", "2720", [16]],
  ["34", "34", [15]], // American Express
  ["37", "37", [15]],
  ["6011", "6011", [16, 19]], // Discover
  ["644", "649", [16, 19]],
  ["65", "65", [16, 19]],
  ["300", "305", [14, 16]], // Diners Club
  ["309", "309", [14, 16]],
  ["36", "36", [14, 16]],
  ["38", "39", [14, 16]],
  ["3528", "3589", [16, 19]], // JCB
  ["62", "62", [16, 17, 18, 19]], // UnionPay
  ["5018", "5018", [12, 13, 14, 15, 16, 17, 18, 19]], // Maestro
  ["5020", "5020", [12, 13, 14, 15, 16, 17, 18, 19]],
  ["5038", "5038", [12, 13, 14, 15, 16, 17, 18, 19]],
  ["5893", "5893", [12, 13, 14, 15, 16, 17, 18, 19]],
  ["6304", "6304", [12, 13, 14, 15, 16, 17, 18, 19]],
  ["6759", "6763", [12, 13, 14, 15, 16, 17, 18, 19]],
  ["2200", "2204", [16, 19]], // Mir
  ["508", "508", [16]], // RuPay
  ["81", "82", [16]],
  ["9792", "9792", [16]], // Troy
];
/** Lengths of printed groups: four digits each, or as American Express and Diners Club print them. */
const GROUPINGS = new Set(["4,4,4,4", "4,4,4,4,3", "4,6,5", "4,6,4", "4,4,4,1"]);

function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (let at = 0; at < digits.length; at += 1) {
    const digit = digits.charCodeAt(digits.length - 1 - at) - 48;
    const doubled = digit * 2;
    sum += at % 2 === 0 ? digit : doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}

export function isCardNumber(digits: string): boolean {
  if (digits.length < 12 || digits.length > 19) return false;
  const isIssued = ISSUERS.some(([from, to, lengths]) => {
    const beginning = digits.slice(0, from.length);
    return beginning >= from && beginning <= to && lengths.includes(digits.length);
  });
  return isIssued && passesLuhn(digits);
}

/** Groups of digits with the same separator throughout; not within a word or a decimal number. */
const GROUPS = /\d+(?:([ \u00a0\u2007\u2009\u202f.\u2010-\u2013-])\d+(?:\1\d+)*)?/g;
const IN_WORD = /[\p{L}\p{N}_]/u;

function isStandalone(text: string, start: number, end: number): boolean {
  const before = text[start - 1] ?? "";
  if (IN_WORD.test(before) || IN_WORD.test(text[end] ?? "")) return false;
  return !((before === "." || before === ",") && /\d/.test(text[start - 2] ?? ""));
}

export function* cardNumbers(text: string): Iterable<SecretMatch> {
  for (const match of text.matchAll(GROUPS)) {
    const [run, separator] = match;
    if (run.length < 12) continue;
    if (separator === undefined) {
      const end = match.index + run.length;
      if (isCardNumber(run) && isStandalone(text, match.index, end)) yield { start: match.index, end, label: "card" };
      continue;
    }
    yield* cardNumbersInGroups(text, match.index, run.split(separator));
  }
}

/** Finds card numbers within groups: other numbers may precede one, as in `7 4111 1111 1111 1111`. */
function* cardNumbersInGroups(text: string, from: number, groups: readonly string[]): Iterable<SecretMatch> {
  let start = from;
  for (let at = 0; at < groups.length; at += 1) {
    for (const count of [5, 4, 3, 1]) {
      const taken = groups.slice(at, at + count);
      if (taken.length < count) continue;
      const isPrinted = count === 1 || GROUPINGS.has(taken.map(({ length }) => length).join());
      const end = start + taken.reduce((sum, { length }) => sum + length + 1, -1);
      if (isPrinted && isCardNumber(taken.join("")) && isStandalone(text, start, end)) {
        yield { start, end, label: "card" };
        break;
      }
    }
    start += (groups[at]?.length ?? 0) + 1;
  }
}
