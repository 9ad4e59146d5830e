// Invoice data in, a PDF out. Sums are money.ts, the look is invoice-pdf.ts.
import { defineTool } from "glovebox/tool";
import { createInvoicePdf } from "./invoice-pdf.ts";
import { type Decimal, sumInvoice, toDecimalText } from "./money.ts";
import { InputSchema, OutputSchema } from "./schemas.ts";

export default defineTool({
  name: "pdf-invoice",
  description:
    "Makes a printable invoice as a PDF (Base64) from structured data: seller, buyer, items with quantity, price, " +
    "discount and tax rate. Adds everything up exactly, with the tax of each rate on a line of its own, and returns the " +
    "sums too. Labels, numbers and dates in English, German, French, Spanish, Italian or Dutch. Prices are net of tax. " +
    "The same input always gives the same file.",
  inputSchema: InputSchema,
  outputSchema: OutputSchema,
  annotations: { title: "PDF invoice", readOnlyHint: true, idempotentHint: true, openWorldHint: false },
  async execute(invoice) {
    const totals = sumInvoice(invoice);
    const { pdf, pages } = await createInvoicePdf(invoice, totals);
    const base64 = await pdf.saveAsBase64({ objectsPerTick: Number.POSITIVE_INFINITY });
    const text = (amount: bigint) => toDecimalText({ digits: amount, scale: totals.minorDigits });
    return {
      pdf: base64,
      fileName: `invoice-${toFileName(invoice.number)}.pdf`,
      mediaType: "application/pdf" as const,
      bytes: bytesOf(base64),
      pages,
      currency: invoice.currency,
      lineTotals: totals.lines.map(text),
      subtotal: text(totals.subtotal),
      taxes: totals.taxes.map(({ rate, net, tax }) => ({ rate: rateText(rate), net: text(net), tax: text(tax) })),
      taxTotal: text(totals.taxTotal),
      total: text(totals.total),
      amountPaid: text(totals.paid),
      amountDue: text(totals.due),
    };
  },
});

function rateText(rate: Decimal): string {
  return toDecimalText(rate);
}

function toFileName(number: string): string {
  const plain = number
    .normalize("NFKD")
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[-.]+|[-.]+$/g, "");
  return plain === "" ? "document" : plain;
}

function bytesOf(base64: string): number {
  const padding = base64.endsWith("==") ? 2 : Number(base64.endsWith("="));
  return (base64.length / 4) * 3 - padding;
}
