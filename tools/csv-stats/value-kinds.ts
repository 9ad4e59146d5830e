// The kinds of values that a cell can have: a table with one reader for each kind. A column has the first kind that reads every one of its values.

export type ColumnType = "integer" | "number" | "boolean" | "date" | "text" | "empty";

export interface ValueKind {
  readonly type: Exclude<ColumnType, "text" | "empty">;
  /** Name in notes, and in the report of a date column. */
  readonly format: string;
  /** The value as a number (a date as milliseconds since 1970 in UTC), or undefined when it is not of this kind. */
  readonly read: (value: string) => number | undefined;
}

/** Past 15 digits a double no longer holds every integer: such a value is an identifier, so it stays text. */
const MAX_DIGITS = 15;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?$/;
const GROUPED = /^[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$/;
const INTEGER = /^[+-]?\d+$/;
/** A postal code, an account number: read as a number it would lose its zeros. */
const LEADING_ZERO = /^[+-]?0\d/;

const ISO_DATE =
  /^(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s?(Z|[+-]\d{2}:?\d{2})?)?$/;
const YEAR_FIRST = /^(\d{4})[/.](\d{1,2})[/.](\d{1,2})$/;
const YEAR_LAST = /^(\d{1,2})\/(\d{1,2})\/(\d{4})$/;
const YEAR_LAST_DOTTED = /^(\d{1,2})\.(\d{1,2})\.(\d{4})$/;

const BOOLEANS: ReadonlyMap<string, number> = new Map([
  ["true", 1],
  ["yes", 1],
  ["y", 1],
  ["false", 0],
  ["no", 0],
  ["n", 0],
]);

/** The kinds in the order in which they are tried: where two fit every value, the earlier one wins. */
export function createValueKinds(decimalComma: boolean): readonly ValueKind[] {
  const readNumber = decimalComma ? (value: string) => readPlainNumber(swapSeparators(value)) : readPlainNumber;
  return [
    {
      type: "integer",
      format: "integer",
      read: (value) => (isInteger(value, decimalComma) ? readNumber(value) : undefined),
    },
    { type: "number", format: decimalComma ? "number with a decimal comma" : "number", read: readNumber },
    { type: "boolean", format: "true/false or yes/no", read: (value) => BOOLEANS.get(value.toLowerCase()) },
    { type: "date", format: "YYYY-MM-DD", read: readIsoDate },
    { type: "date", format: "YYYY/MM/DD", read: (value) => readDate(YEAR_FIRST, value, "year", "month", "day") },
    { type: "date", format: "MM/DD/YYYY", read: (value) => readDate(YEAR_LAST, value, "month", "day", "year") },
    { type: "date", format: "DD/MM/YYYY", read: (value) => readDate(YEAR_LAST, value, "day", "month", "year") },
    { type: "date", format: "DD.MM.YYYY", read: (value) => readDate(YEAR_LAST_DOTTED, value, "day", "month", "year") },
  ];
}

function swapSeparators(value: string): string {
  return value.replace(/[.,]/g, (mark) => (mark === "." ? "," : "."));
}

function isInteger(value: string, decimalComma: boolean): boolean {
  if (INTEGER.test(value)) return true;
  const plain = decimalComma ? swapSeparators(value) : value;
  return GROUPED.test(plain) && !plain.includes(".");
}

function readPlainNumber(value: string): number | undefined {
  if (LEADING_ZERO.test(value)) return undefined;
  let plain = value;
  if (!NUMBER.test(value)) {
    if (!GROUPED.test(value)) return undefined;
    plain = value.replaceAll(",", "");
  }
  if (plain.length > MAX_DIGITS && INTEGER.test(plain) && plain.replace(/^[+-]/, "").length > MAX_DIGITS)
    return undefined;
  const number = Number(plain);
  return Number.isFinite(number) ? number : undefined;
}

type DatePart = "year" | "month" | "day";

function readDate(
  pattern: RegExp,
  value: string,
  ...order: readonly [DatePart, DatePart, DatePart]
): number | undefined {
  const match = pattern.exec(value);
  if (match === null) return undefined;
  const parts = { year: 0, month: 0, day: 0 };
  order.forEach((part, index) => {
    parts[part] = Number(match[index + 1]);
  });
  return toTime(parts.year, parts.month, parts.day);
}

/** A date without a time zone is taken as UTC, so that the same file gives the same answer anywhere. */
function readIsoDate(value: string): number | undefined {
  const match = ISO_DATE.exec(value);
  if (match === null) return undefined;
  const [, year, month, day, hour = "0", minute = "0", second = "0", fraction = "0", zone = "Z"] = match;
  const date = toTime(Number(year), Number(month), Number(day));
  if (date === undefined || Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return undefined;
  const millis = Math.floor(Number(`0.${fraction}`) * 1000);
  const time = ((Number(hour) * 60 + Number(minute)) * 60 + Number(second)) * 1000 + millis;
  return date + time - zoneOffset(zone);
}

function zoneOffset(zone: string): number {
  if (zone === "Z") return 0;
  const digits = zone.slice(1).replace(":", "");
  const minutes = Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2));
  return (zone.startsWith("-") ? -minutes : minutes) * 60_000;
}

/** Undefined for a day that the calendar does not have. */
function toTime(year: number, month: number, day: number): number | undefined {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const exists = date.getUTCFullYear() === year && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  return exists ? date.getTime() : undefined;
}
