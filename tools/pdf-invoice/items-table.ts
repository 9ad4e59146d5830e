// The table of items: columns as wide as their widest value, a head on every page, rows kept whole.
import type { Formats } from "./format.ts";
import type { Labels } from "./locales.ts";
import { parseDecimal, type Totals } from "./money.ts";
import type { Invoice, InvoiceItem } from "./schemas.ts";
import { LINE_HEIGHT, type Sheet, type TextStyle } from "./sheet.ts";

/** Tried in this order until there is room for a description next to the figures, because large amounts are wide. */
const SIZES = [9, 8, 7, 6, 5];
const SMALLEST_DESCRIPTION = 110;
const HEAD_SIZE = 8;
const HEAD_HEIGHT = 20;
const PADDING = 6;
const DETAILS_GAP = 2;

interface Column {
  readonly label: string;
  readonly value: (item: InvoiceItem, index: number) => string;
}

/** A column with the position of its right edge, at which its values end. */
interface PlacedColumn extends Column {
  readonly right: number;
}

export interface TableText {
  readonly formats: Formats;
  readonly labels: Labels;
  readonly taxName: string;
}

/** The table as it is laid out, the same on every page. */
interface Table {
  readonly columns: readonly PlacedColumn[];
  readonly size: number;
  readonly descriptionWidth: number;
  readonly labels: Labels;
}

export function drawItems(sheet: Sheet, invoice: Invoice, totals: Totals, text: TableText): void {
  const table = layOut(sheet, invoice.items, toColumns(invoice, totals, text), text.labels);
  drawHead(sheet, table);
  invoice.items.forEach((item, index) => {
    drawRow(sheet, table, item, index);
  });
}

function toColumns(invoice: Invoice, totals: Totals, { formats, labels, taxName }: TableText): readonly Column[] {
  const { items } = invoice;
  const discounted = items.some(({ discountPercent }) => Number(discountPercent) !== 0);
  const taxed = items.some(({ taxRate }) => Number(taxRate) !== 0);
  const percent = (value: string) => formats.percent(parseDecimal(value));
  return [
    {
      label: labels.quantity,
      value: ({ quantity, unit = "" }) => `${formats.number(parseDecimal(quantity))} ${unit}`.trim(),
    },
    { label: labels.unitPrice, value: ({ unitPrice }) => formats.money(parseDecimal(unitPrice)) },
    ...(discounted
      ? [
          {
            label: labels.discount,
            value: ({ discountPercent }: InvoiceItem) =>
              Number(discountPercent) === 0 ? "" : percent(discountPercent),
          },
        ]
      : []),
    ...(taxed ? [{ label: taxName, value: ({ taxRate }: InvoiceItem) => percent(taxRate) }] : []),
    {
      label: labels.amount,
      value: (_item, index) => formats.money({ digits: totals.lines[index] ?? 0n, scale: totals.minorDigits }),
    },
  ];
}

function layOut(sheet: Sheet, items: readonly InvoiceItem[], columns: readonly Column[], labels: Labels): Table {
  const tables = SIZES.map((size) => ({ ...placeColumns(sheet, items, columns, size), size, labels }));
  const roomy = tables.find(({ descriptionWidth }) => descriptionWidth >= SMALLEST_DESCRIPTION);
  const [widest] = tables.toSorted((a, b) => b.descriptionWidth - a.descriptionWidth);
  const table = roomy ?? widest;
  if (table === undefined) throw new Error("Expected a size for the table");
  return table;
}

function placeColumns(sheet: Sheet, items: readonly InvoiceItem[], columns: readonly Column[], size: number) {
  let right = sheet.right - PADDING;
  const placed: PlacedColumn[] = [];
  for (const column of columns.toReversed()) {
    const widths = items.map((item, index) => sheet.regular.widthOf(column.value(item, index), size));
    const width = widths.reduce((widest, next) => Math.max(widest, next), sheet.bold.widthOf(column.label, HEAD_SIZE));
    placed.unshift({ ...column, right });
    right -= width + 3 * PADDING;
  }
  return { columns: placed, descriptionWidth: right - sheet.left - PADDING };
}

function drawHead(sheet: Sheet, { columns, labels }: Table): void {
  sheet.box(sheet.left, sheet.y - HEAD_HEIGHT, sheet.width, HEAD_HEIGHT);
  const style = { bold: true, size: HEAD_SIZE, color: sheet.palette.onAccent } as const;
  const baseLine = sheet.y - HEAD_HEIGHT + (HEAD_HEIGHT - HEAD_SIZE) / 2 + 1;
  sheet.text(labels.description, sheet.left + PADDING, baseLine, style);
  for (const { label, right } of columns) sheet.text(label, right, baseLine, { ...style, align: "right" });
  sheet.y -= HEAD_HEIGHT;
}

interface RowLine {
  readonly text: string;
  readonly style: TextStyle & { readonly size: number };
  /** Space above the line. */
  readonly gap: number;
}

function drawRow(sheet: Sheet, table: Table, item: InvoiceItem, index: number): void {
  const lines = rowLines(sheet, table, item);
  const height = lines.reduce((sum, { style, gap }) => sum + gap + style.size * LINE_HEIGHT, 2 * PADDING);
  // A row that fits on a page is never split; one that does not goes on over as many as it needs.
  if (sheet.reserve(Math.min(height, sheet.pageHeight - HEAD_HEIGHT))) drawHead(sheet, table);
  sheet.y -= PADDING;
  let first = { page: sheet.page, baseLine: sheet.y };
  lines.forEach(({ text, style, gap }, lineIndex) => {
    const lineHeight = gap + style.size * LINE_HEIGHT;
    if (sheet.reserve(lineHeight)) drawHead(sheet, table);
    const baseLine = sheet.y - gap - style.size;
    sheet.text(text, sheet.left + PADDING, baseLine, style);
    if (lineIndex === 0) first = { page: sheet.page, baseLine };
    sheet.y -= lineHeight;
  });
  // Last, so that copied text and screen readers have the description in one piece.
  for (const { right, value } of table.columns) {
    sheet.text(value(item, index), right, first.baseLine, { size: table.size, align: "right" }, first.page);
  }
  sheet.y -= PADDING;
  sheet.rule(sheet.y, sheet.left, sheet.right);
}

function rowLines(sheet: Sheet, table: Table, { description, details = "" }: InvoiceItem): readonly RowLine[] {
  const { size, descriptionWidth } = table;
  const small = { size: size - 1, color: sheet.palette.muted };
  const main = sheet.regular.wrap(description, size, descriptionWidth);
  const more = details === "" ? [] : sheet.regular.wrap(details, small.size, descriptionWidth);
  return [
    ...main.map((text) => ({ text, style: { size }, gap: 0 })),
    ...more.map((text, index) => ({ text, style: small, gap: index === 0 ? DETAILS_GAP : 0 })),
  ];
}

/** Height of the smallest table: its head and one row of one line. */
export const SMALLEST_TABLE = HEAD_HEIGHT + 2 * PADDING + 9 * LINE_HEIGHT;
