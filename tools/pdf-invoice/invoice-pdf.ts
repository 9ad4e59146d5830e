// Lays an invoice out as a PDF: letterhead, parties, items, totals, how to pay, notes, and a footer on every page.
import { PDFDocument } from "pdf-lib";
import { createFormats } from "./format.ts";
import { drawItems, SMALLEST_TABLE } from "./items-table.ts";
import { drawLabel, fill, GAP, type Layout } from "./layout.ts";
import { type Labels, LOCALES } from "./locales.ts";
import type { Totals } from "./money.ts";
import { drawParties, partyLines } from "./parties.ts";
import { toPrintableJson } from "./printable-text.ts";
import type { Invoice, Party } from "./schemas.ts";
import { LINE_HEIGHT, MARGIN, Sheet } from "./sheet.ts";
import { drawSummary } from "./summary.ts";

const FOOTER_SIZE = 7.5;

/** @throws {Error} when a text cannot be printed */
export async function createInvoicePdf(given: Invoice, totals: Totals): Promise<{ pdf: PDFDocument; pages: number }> {
  const invoice = toPrintableJson(given, "", given.unsupportedText);
  const locale = LOCALES[invoice.locale];
  const formats = createFormats(locale, invoice.currency, totals.minorDigits);
  const labels = locale.labels;
  const title = invoice.title ?? labels.invoice;
  const pdf = await PDFDocument.create({ updateMetadata: false });
  const sheet = await Sheet.create(pdf, invoice, (newPage) => drawRunningHead(newPage, invoice, title));
  const layout = { sheet, invoice, totals, formats, labels, title, taxName: invoice.taxName ?? labels.tax };
  setMetadata(pdf, layout);
  drawLetterhead(layout);
  drawParties(layout);
  sheet.reserve(SMALLEST_TABLE);
  drawItems(sheet, invoice, totals, layout);
  drawSummary(layout);
  drawNotes(layout);
  drawFooters(layout);
  return { pdf, pages: sheet.pages.length };
}

/** All of it from the input, so that the same invoice is the same file, byte for byte. */
function setMetadata(pdf: PDFDocument, { invoice, title }: Layout): void {
  const issued = new Date(`${invoice.issueDate}T00:00:00Z`);
  pdf.setTitle(`${title} ${invoice.number}`, { showInWindowTitleBar: true });
  pdf.setAuthor(invoice.seller.name);
  pdf.setSubject(`${invoice.seller.name} - ${invoice.buyer.name}`);
  pdf.setLanguage(invoice.locale);
  pdf.setCreator("Glovebox pdf-invoice");
  pdf.setProducer("pdf-lib");
  pdf.setCreationDate(issued);
  pdf.setModificationDate(issued);
}

function drawRunningHead(sheet: Sheet, invoice: Invoice, title: string): void {
  const y = sheet.top - MARGIN;
  const style = { size: 8, color: sheet.palette.muted } as const;
  const fitting = (text: string) => sheet.regular.wrap(text, style.size, sheet.width / 2 - GAP)[0] ?? "";
  sheet.text(fitting(invoice.seller.name), sheet.left, y, style);
  sheet.text(fitting(`${title} ${invoice.number}`), sheet.right, y, { ...style, align: "right" });
  sheet.rule(y - 8, sheet.left, sheet.right);
}

/** The seller on the left; title and number on the right, which take at most half of the width. */
function drawLetterhead({ sheet, invoice, labels, title }: Layout): void {
  const { palette, right, y: top } = sheet;
  const half = sheet.width / 2;
  sheet.box(0, sheet.top - 6, right + MARGIN, 6);
  const titleSize = Math.min(24, (24 * half) / sheet.bold.widthOf(title, 24));
  const number = sheet.regular.wrap(`${labels.number} ${invoice.number}`, 10, half);
  const numberWidths = number.map((line) => sheet.regular.widthOf(line, 10));
  const sellerWidth = sheet.width - Math.max(sheet.bold.widthOf(title, titleSize), ...numberWidths) - GAP;
  let sellerEnd = sheet.paragraph(invoice.seller.name, sheet.left, top, sellerWidth, { bold: true, size: 14 }) - 3;
  for (const text of partyLines(invoice.seller, labels)) {
    sellerEnd = sheet.paragraph(text, sheet.left, sellerEnd, sellerWidth, { size: 8.5, color: palette.muted });
  }
  sheet.text(title, right, top - 20, { bold: true, size: titleSize, color: palette.accentText, align: "right" });
  number.forEach((line, index) => {
    sheet.text(line, right, top - 36 - index * 13, { size: 10, color: palette.muted, align: "right" });
  });
  sheet.y = Math.min(sellerEnd, top - 27 - number.length * 13) - GAP;
}

/** Notes may be long: they flow over as many pages as they need. */
function drawNotes({ sheet, invoice, labels }: Layout): void {
  if (invoice.notes === undefined || invoice.notes === "") return;
  const lines = sheet.regular.wrap(invoice.notes, 9, sheet.width);
  sheet.reserve(14 + Math.min(lines.length, 3) * 9 * LINE_HEIGHT);
  sheet.y = drawLabel(sheet, labels.notes, sheet.left, sheet.y);
  for (const line of lines) {
    sheet.reserve(9 * LINE_HEIGHT);
    sheet.text(line, sheet.left, sheet.y - 9);
    sheet.y -= 9 * LINE_HEIGHT;
  }
}

function drawFooters({ sheet, invoice, labels }: Layout): void {
  const pages = sheet.pages;
  pages.forEach((page, index) => {
    const y = MARGIN - 6;
    const style = { size: FOOTER_SIZE, color: sheet.palette.muted } as const;
    const place = fill(labels.pageOf, { page: String(index + 1), pages: String(pages.length) });
    const width = sheet.width - sheet.regular.widthOf(place, FOOTER_SIZE) - GAP;
    sheet.rule(y + 14, sheet.left, sheet.right, page);
    sheet.text(imprint(sheet, invoice.seller, labels, width), sheet.left, y, style, page);
    sheet.text(place, sheet.right, y, { ...style, align: "right" }, page);
  });
}

/** As much about the seller as fits on one line. */
function imprint(sheet: Sheet, { name, taxId, website, email }: Party, labels: Labels, width: number): string {
  const rest = [taxId === undefined ? undefined : `${labels.taxId} ${taxId}`, website ?? email];
  let line = sheet.regular.wrap(name, FOOTER_SIZE, width)[0] ?? "";
  for (const part of rest.filter((text) => text !== undefined)) {
    const longer = `${line}  ·  ${part}`;
    if (sheet.regular.widthOf(longer, FOOTER_SIZE) <= width) line = longer;
  }
  return line;
}
