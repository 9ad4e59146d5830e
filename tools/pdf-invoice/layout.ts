// Shared by the parts of an invoice's layout: the data that they draw, and common drawing functions.
import type { Formats } from "./format.ts";
import type { Labels } from "./locales.ts";
import type { Totals } from "./money.ts";
import type { Invoice } from "./schemas.ts";
import type { Sheet } from "./sheet.ts";

export interface Layout {
  readonly sheet: Sheet;
  readonly invoice: Invoice;
  readonly totals: Totals;
  readonly formats: Formats;
  readonly labels: Labels;
  readonly title: string;
  readonly taxName: string;
}

/** Space between the parts of the page, in points. */
export const GAP = 24;

export function money({ formats, totals }: Layout, amount: bigint): string {
  return formats.money({ digits: amount, scale: totals.minorDigits });
}

/** Fills a label's `{name}` places. */
export function fill(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(/\{(\w+)\}/g, (whole, name: string) => values[name] ?? whole);
}

/** Draws the small heading of a part, and returns where what it heads begins. */
export function drawLabel(sheet: Sheet, label: string, x: number, top: number): number {
  sheet.text(label.toUpperCase(), x, top - 7, { bold: true, size: 7, color: sheet.palette.accentText });
  return top - 14;
}
