// The payer, the delivery address and the invoice's dates and numbers, as one band across the page.
import { drawLabel, GAP, type Layout } from "./layout.ts";
import type { Labels } from "./locales.ts";
import type { Labelled, Party } from "./schemas.ts";
import { LINE_HEIGHT, type Sheet } from "./sheet.ts";

const SIZE = 9;
const NAME_SIZE = 10;
const BLOCK_GAP = 16;
const LABEL_HEIGHT = 14;
const FACT_LINE = 12;
const FACT_GAP = 3;
const AMOUNT_HEIGHT = 18;

/** Everything about a party but its name, a line each. */
export function partyLines({ address, taxId, email, phone, website }: Party, labels: Labels): readonly string[] {
  const contacts = [phone, email, website].filter((text) => text !== undefined);
  return [...address, ...(taxId === undefined ? [] : [`${labels.taxId} ${taxId}`]), ...contacts];
}

interface Block {
  readonly label: string;
  readonly name: readonly string[];
  readonly lines: readonly string[];
}

interface Fact {
  readonly label: readonly string[];
  readonly value: readonly string[];
}

export function drawParties(layout: Layout): void {
  const { sheet, invoice, labels } = layout;
  const parties: { label: string; party: Party }[] = [{ label: labels.billTo, party: invoice.buyer }];
  if (invoice.shipTo !== undefined) parties.push({ label: labels.shipTo, party: invoice.shipTo });
  const factsWidth = sheet.width * 0.36;
  const width = (sheet.width - factsWidth - GAP - (parties.length - 1) * BLOCK_GAP) / parties.length;
  const blocks = parties.map(({ label, party }) => ({
    label,
    name: sheet.bold.wrap(party.name, NAME_SIZE, width),
    lines: partyLines(party, labels).flatMap((line) => sheet.regular.wrap(line, SIZE, width)),
  }));
  const facts = layOutFacts(layout, factsWidth);
  const height = Math.max(...blocks.map(blockHeight), factsHeight(facts));
  sheet.reserve(height);
  const top = sheet.y;
  blocks.forEach((block, index) => {
    drawBlock(sheet, block, sheet.left + index * (width + BLOCK_GAP), top);
  });
  drawFacts(layout, facts, top, factsWidth);
  sheet.y = top - height - GAP;
}

function blockHeight({ name, lines }: Block): number {
  return LABEL_HEIGHT + (name.length * NAME_SIZE + lines.length * SIZE) * LINE_HEIGHT;
}

function drawBlock(sheet: Sheet, { label, name, lines }: Block, x: number, top: number): void {
  let y = drawLabel(sheet, label, x, top);
  const draw = (text: string, size: number, bold: boolean) => {
    sheet.text(text, x, y - size, { size, bold });
    y -= size * LINE_HEIGHT;
  };
  for (const line of name) draw(line, NAME_SIZE, true);
  for (const line of lines) draw(line, SIZE, false);
}

function layOutFacts({ sheet, invoice, formats, labels }: Layout, width: number): readonly Fact[] {
  const facts: Labelled[] = [
    { label: labels.issueDate, value: formats.date(invoice.issueDate) },
    ...(invoice.dueDate === undefined ? [] : [{ label: labels.dueDate, value: formats.date(invoice.dueDate) }]),
    ...invoice.details,
  ];
  return facts.map(({ label, value }) => {
    const labelLines = sheet.regular.wrap(label, SIZE, width / 2 - 10);
    const labelWidth = Math.max(...labelLines.map((line) => sheet.regular.widthOf(line, SIZE)));
    return { label: labelLines, value: sheet.regular.wrap(value, SIZE, width - labelWidth - 10) };
  });
}

function factHeight({ label, value }: Fact): number {
  return Math.max(label.length, value.length) * FACT_LINE + FACT_GAP;
}

function factsHeight(facts: readonly Fact[]): number {
  return facts.reduce((sum, fact) => sum + factHeight(fact), AMOUNT_HEIGHT);
}

/** Labels on the left, values on the right; below them the amount due. */
function drawFacts(
  { sheet, labels, formats, totals }: Layout,
  facts: readonly Fact[],
  top: number,
  width: number,
): void {
  const left = sheet.right - width;
  let y = top;
  for (const fact of facts) {
    fact.label.forEach((line, index) => {
      sheet.text(line, left, y - 8 - index * FACT_LINE, { color: sheet.palette.muted });
    });
    fact.value.forEach((line, index) => {
      sheet.text(line, sheet.right, y - 8 - index * FACT_LINE, { align: "right" });
    });
    y -= factHeight(fact);
  }
  const due = formats.money({ digits: totals.due, scale: totals.minorDigits });
  sheet.rule(y - 2, left, sheet.right);
  sheet.text(labels.amountDue, left, y - 15, { bold: true, size: NAME_SIZE });
  sheet.text(due, sheet.right, y - 15, { bold: true, size: NAME_SIZE, align: "right" });
}
