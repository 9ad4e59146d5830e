// The part below the items: the totals on the right, and the payment instructions on the left.
import { drawLabel, fill, GAP, type Layout, money } from "./layout.ts";
import { LINE_HEIGHT, type Sheet, type TextStyle } from "./sheet.ts";

const ROW = 16;

interface SummaryRow {
  readonly label: string;
  readonly value: string;
  readonly size: number;
  readonly strong?: boolean;
}

/** With less width or more height, the payment instructions are placed below the totals with the whole width. */
const SMALLEST_PAYMENT = 160;
const TALLEST_PAYMENT = 300;

/** Draws both on one page. */
export function drawSummary(layout: Layout): void {
  const { sheet, labels } = layout;
  const rows = summaryRows(layout);
  const due = { label: labels.amountDue, value: money(layout, layout.totals.due), size: 11 };
  const width = summaryWidth(sheet, [...rows, due]);
  const beside = sheet.width - width - GAP;
  const narrow = layOutPayment(layout, Math.max(beside, SMALLEST_PAYMENT));
  const isBeside = beside >= SMALLEST_PAYMENT && narrow.height <= TALLEST_PAYMENT;
  const payment = isBeside ? narrow : layOutPayment(layout, sheet.width);
  const totalsHeight = rows.length * ROW + 38;
  sheet.y -= 10;
  sheet.reserve(isBeside ? Math.max(totalsHeight, payment.height) : totalsHeight);
  const top = sheet.y;
  const totalsEnd = drawTotals(sheet, rows, due, top, width);
  if (isBeside) {
    sheet.y = Math.min(drawPayment(layout, payment, top), totalsEnd) - GAP;
    return;
  }
  sheet.y = totalsEnd - GAP;
  sheet.reserve(payment.height);
  sheet.y = drawPayment(layout, payment, sheet.y) - GAP;
}

function summaryRows(layout: Layout): readonly SummaryRow[] {
  const { totals, formats, labels, taxName } = layout;
  const taxed = totals.taxes.filter(({ rate }) => rate.digits !== 0n || totals.taxes.length > 1);
  const taxRows = taxed.map(({ rate, net, tax }) => ({
    label: fill(labels.taxOn, { tax: taxName, rate: formats.percent(rate), net: money(layout, net) }),
    value: money(layout, tax),
    size: 9,
  }));
  const paidRows = totals.paid === 0n ? [] : [{ label: labels.paid, value: money(layout, -totals.paid), size: 9 }];
  return [
    { label: labels.subtotal, value: money(layout, totals.subtotal), size: 9 },
    ...taxRows,
    { label: labels.total, value: money(layout, totals.total), size: 10, strong: true },
    ...paidRows,
  ];
}

const SMALLEST_SUMMARY = 220;

function summaryWidth(sheet: Sheet, rows: readonly SummaryRow[]): number {
  const widths = rows.map(({ label, value, size }) => sheet.bold.widthOf(label + value, size) + (3 * GAP) / 2);
  return Math.min(
    sheet.width,
    widths.reduce((widest, width) => Math.max(widest, width), SMALLEST_SUMMARY),
  );
}

function drawTotals(sheet: Sheet, rows: readonly SummaryRow[], due: SummaryRow, top: number, width: number): number {
  const left = sheet.right - width;
  let y = top;
  for (const { label, value, size, strong = false } of rows) {
    if (strong) {
      y -= 4;
      sheet.rule(y, left + 6, sheet.right - 6);
    }
    const style = { bold: strong, size };
    sheet.text(label, left + 6, y - 12, { ...style, color: strong ? sheet.palette.ink : sheet.palette.muted });
    sheet.text(value, sheet.right - 6, y - 12, { ...style, align: "right" });
    y -= ROW;
  }
  const style = { bold: true, size: due.size, color: sheet.palette.onAccent } as const;
  sheet.box(left, y - 30, width, 24);
  sheet.text(due.label, left + 6, y - 22, style);
  sheet.text(due.value, sheet.right - 6, y - 22, { ...style, align: "right" });
  return y - 30;
}

/** Returns the payment instructions as lines in two columns. */
interface Payment {
  readonly rows: readonly { readonly label: readonly string[]; readonly value: readonly string[] }[];
  readonly labelWidth: number;
  readonly height: number;
}

const SIZE = 9;
const LABEL_HEIGHT = 18;
const ROW_GAP = 2;

function layOutPayment({ sheet, invoice }: Layout, width: number): Payment {
  const given = invoice.paymentDetails;
  const widest = given.reduce((most, { label }) => Math.max(most, sheet.regular.widthOf(label, SIZE)), 0);
  const labelWidth = Math.min(widest + 12, width / 2);
  const rows = given.map(({ label, value }) => ({
    label: sheet.regular.wrap(label, SIZE, labelWidth - 6),
    value: sheet.regular.wrap(value, SIZE, width - labelWidth),
  }));
  const heights = rows.map((row) => Math.max(row.label.length, row.value.length) * SIZE * LINE_HEIGHT + ROW_GAP);
  const height = rows.length === 0 ? 0 : heights.reduce((sum, next) => sum + next, LABEL_HEIGHT);
  return { rows, labelWidth, height };
}

function drawPayment({ sheet, labels }: Layout, { rows, labelWidth }: Payment, top: number): number {
  if (rows.length === 0) return top;
  let y = drawLabel(sheet, labels.paymentDetails, sheet.left, top - 4);
  const drawLines = (lines: readonly string[], x: number, style: TextStyle) => {
    lines.forEach((line, index) => {
      sheet.text(line, x, y - SIZE - index * SIZE * LINE_HEIGHT, { ...style, size: SIZE });
    });
  };
  for (const { label, value } of rows) {
    drawLines(label, sheet.left, { color: sheet.palette.muted });
    drawLines(value, sheet.left + labelWidth, {});
    y -= Math.max(label.length, value.length) * SIZE * LINE_HEIGHT + ROW_GAP;
  }
  return y;
}
