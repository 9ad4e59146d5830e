// Money as whole minor units (cents) in bigint, and the sums of an invoice. Knows nothing of PDF or of how money is written.
import type { Invoice, InvoiceItem } from "./schemas.ts";

/** ISO 4217: currencies whose minor unit is not a hundredth. */
const MINOR_DIGITS: Readonly<Record<string, number>> = {
  BIF: 0,
  CLP: 0,
  DJF: 0,
  GNF: 0,
  ISK: 0,
  JPY: 0,
  KMF: 0,
  KRW: 0,
  PYG: 0,
  RWF: 0,
  UGX: 0,
  UYI: 0,
  VND: 0,
  VUV: 0,
  XAF: 0,
  XOF: 0,
  XPF: 0,
  BHD: 3,
  IQD: 3,
  JOD: 3,
  KWD: 3,
  LYD: 3,
  OMR: 3,
  TND: 3,
};

function minorDigitsOf(currency: string): number {
  return MINOR_DIGITS[currency] ?? 2;
}

/** `digits / 10 ** scale`: 19.99 is 1999 with scale 2. */
export interface Decimal {
  readonly digits: bigint;
  readonly scale: number;
}

/** @param text such as -12.50; the input schema has checked it */
export function parseDecimal(text: string): Decimal {
  const [whole = "0", fraction = ""] = text.split(".");
  return { digits: BigInt(whole + fraction), scale: fraction.length };
}

/** A decimal without zeros at its end: 7.50 is 7.5. */
export function trimDecimal({ digits, scale }: Decimal): Decimal {
  let trimmed = digits;
  let places = scale;
  while (places > 0 && trimmed % 10n === 0n) {
    trimmed /= 10n;
    places -= 1;
  }
  return { digits: trimmed, scale: places };
}

export function toDecimalText({ digits, scale }: Decimal): string {
  const sign = digits < 0n ? "-" : "";
  const text = (digits < 0n ? -digits : digits).toString().padStart(scale + 1, "0");
  return scale === 0 ? sign + text : `${sign}${text.slice(0, -scale)}.${text.slice(-scale)}`;
}

/** Commercial rounding: a half goes away from zero. */
function divideRounded(dividend: bigint, divisor: bigint): bigint {
  const half = divisor / 2n;
  return dividend < 0n ? -((-dividend + half) / divisor) : (dividend + half) / divisor;
}

interface TaxSum {
  readonly rate: Decimal;
  readonly net: bigint;
  readonly tax: bigint;
}

/** All amounts in minor units of the invoice's currency. */
export interface Totals {
  readonly minorDigits: number;
  readonly lines: readonly bigint[];
  readonly subtotal: bigint;
  readonly taxes: readonly TaxSum[];
  readonly taxTotal: bigint;
  readonly total: bigint;
  readonly paid: bigint;
  readonly due: bigint;
}

/**
 * Each item is rounded once, and each rate's tax once on the sum of its items: as EN 16931 requires, and as an
 * accountant calculates who adds up the printed rows.
 */
export function sumInvoice(invoice: Invoice): Totals {
  const minorDigits = minorDigitsOf(invoice.currency);
  const lines = invoice.items.map((item) => netOf(item, minorDigits));
  const subtotal = sum(lines);
  const taxes = taxesOf(invoice.items, lines);
  const taxTotal = sum(taxes.map(({ tax }) => tax));
  const total = subtotal + taxTotal;
  const paid = toMinorUnits(parseDecimal(invoice.amountPaid), minorDigits);
  return { minorDigits, lines, subtotal, taxes, taxTotal, total, paid, due: total - paid };
}

function sum(amounts: readonly bigint[]): bigint {
  return amounts.reduce((total, amount) => total + amount, 0n);
}

function netOf(item: InvoiceItem, minorDigits: number): bigint {
  const quantity = parseDecimal(item.quantity);
  const price = parseDecimal(item.unitPrice);
  const discount = parseDecimal(item.discountPercent);
  const left = 100n * 10n ** BigInt(discount.scale) - discount.digits;
  const product = {
    digits: quantity.digits * price.digits * left,
    scale: quantity.scale + price.scale + discount.scale,
  };
  return toMinorUnits({ digits: product.digits, scale: product.scale + 2 }, minorDigits);
}

function toMinorUnits({ digits, scale }: Decimal, minorDigits: number): bigint {
  return scale <= minorDigits
    ? digits * 10n ** BigInt(minorDigits - scale)
    : divideRounded(digits, 10n ** BigInt(scale - minorDigits));
}

/** One sum a rate, the lowest rate first; 7 and 7.00 are one rate. */
function taxesOf(items: readonly InvoiceItem[], lines: readonly bigint[]): readonly TaxSum[] {
  const nets = new Map<string, bigint>();
  items.forEach((item, index) => {
    const rate = toDecimalText(trimDecimal(parseDecimal(item.taxRate)));
    nets.set(rate, (nets.get(rate) ?? 0n) + (lines[index] ?? 0n));
  });
  return [...nets]
    .sort(([a], [b]) => Number(a) - Number(b))
    .map(([text, net]) => {
      const rate = parseDecimal(text);
      return { rate, net, tax: divideRounded(net * rate.digits, 100n * 10n ** BigInt(rate.scale)) };
    });
}
