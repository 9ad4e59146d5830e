// Writes numbers, money, percentages and dates the way a locale does.
import { CURRENCY_SYMBOLS, ENGLISH_MONTHS, type Locale } from "./locales.ts";
import { type Decimal, toDecimalText, trimDecimal } from "./money.ts";

const NBSP = "\u00a0";

export interface Formats {
  readonly number: (value: Decimal) => string;
  /** With at least the currency's own places, and more if the value has more. */
  readonly money: (value: Decimal) => string;
  readonly percent: (value: Decimal) => string;
  readonly date: (isoDate: string) => string;
}

export function createFormats(locale: Locale, currency: string, minorDigits: number): Formats {
  const number = (value: Decimal) => groupDigits(toDecimalText(value), locale);
  return {
    number: (value) => number(trimDecimal(value)),
    money: (value) => placeSymbol(number(withPlaces(value, minorDigits)), locale, currency),
    percent: (value) => `${number(trimDecimal(value))}${locale.percentSpace}%`,
    date: (isoDate) => formatDate(isoDate, locale),
  };
}

function withPlaces(value: Decimal, places: number): Decimal {
  const trimmed = trimDecimal(value);
  const missing = Math.max(0, places - trimmed.scale);
  return { digits: trimmed.digits * 10n ** BigInt(missing), scale: trimmed.scale + missing };
}

function groupDigits(text: string, { decimalMark, groupMark }: Locale): string {
  const [whole = "0", fraction] = text.split(".");
  const grouped = whole.replace(/\B(?=(?:\d{3})+$)/g, groupMark);
  return fraction === undefined ? grouped : grouped + decimalMark + fraction;
}

function placeSymbol(text: string, locale: Locale, currency: string): string {
  const symbol = CURRENCY_SYMBOLS[currency] ?? currency;
  const sign = text.startsWith("-") ? "-" : "";
  const amount = text.slice(sign.length);
  if (locale.money === "0 ¤") return `${sign}${amount}${NBSP}${symbol}`;
  if (locale.money === "¤ 0") return `${symbol}${NBSP}${sign}${amount}`;
  // A code is a word: it needs a space where a sign does not.
  return `${sign}${symbol}${/[A-Z]$/.test(symbol) ? NBSP : ""}${amount}`;
}

function formatDate(isoDate: string, locale: Locale): string {
  const [year = "", month = "", day = ""] = isoDate.split("-");
  const parts: Readonly<Record<string, string>> = {
    YYYY: year,
    MM: month,
    DD: day,
    D: String(Number(day)),
    month: ENGLISH_MONTHS[Number(month) - 1] ?? month,
  };
  return locale.date.replace(/YYYY|MM|DD|D|month/g, (part) => parts[part] ?? part);
}
