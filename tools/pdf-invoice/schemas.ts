// Input and output schemas of pdf-invoice, with the descriptions that its callers see.
import * as z from "zod";
import { LOCALES } from "./locales.ts";

const LARGEST = 1_000_000_000;
/** Each has a line below the items, and these stay on one page. */
const MOST_TAX_RATES = 12;
const DECIMAL = /^-?\d{1,10}(?:\.\d{1,6})?$/;

/** A decimal is taken as it is written: 19.99 stays 19.99, and never becomes the nearest binary fraction. */
const decimal = z
  .union([z.number(), z.string()])
  .transform(String)
  .refine((text) => DECIMAL.test(text) && Math.abs(Number(text)) <= LARGEST, {
    error: `Expected a decimal from -${LARGEST} to ${LARGEST} with at most 6 places, e.g. 19.99 or "19.99"`,
  });

const percent = decimal.refine((text) => Number(text) >= 0 && Number(text) <= 100, {
  error: "Expected a percentage from 0 to 100",
});

const line = (max: number) => z.string().trim().min(1).max(max);

const PartySchema = z.strictObject({
  name: line(120).describe("Name of the person or company"),
  address: z.array(line(80)).min(1).max(6).describe("Postal address, one line each"),
  taxId: line(60).optional().describe("VAT or other tax number"),
  email: line(80).optional().describe("E-mail address"),
  phone: line(60).optional().describe("Telephone number"),
  website: line(80).optional().describe("Web address"),
});

const LabelledSchema = z.strictObject({
  label: line(60).describe("What it is, e.g. IBAN"),
  value: line(120).describe("The text beside the label"),
});

const ItemSchema = z.strictObject({
  description: line(300).describe("What was sold, in a few words"),
  details: z.string().trim().max(1000).optional().describe("More about it, in small print; may have line breaks"),
  quantity: decimal.default("1").describe("How many, up to 6 decimal places"),
  unit: line(20).optional().describe("Unit of the quantity, e.g. h, kg or pcs"),
  unitPrice: decimal.describe("Net price of one unit, in units of the currency, e.g. 19.99; below zero for a credit"),
  discountPercent: percent.default("0").describe("Discount on this item, in percent"),
  taxRate: percent.default("0").describe("Tax on this item, in percent, e.g. 19"),
});

export const InputSchema = z
  .strictObject({
    number: line(40).describe("Invoice number, e.g. 2026-0042"),
    issueDate: z.iso.date().describe("Date of the invoice, YYYY-MM-DD; also the date of the PDF"),
    dueDate: z.iso.date().optional().describe("Pay by this date, YYYY-MM-DD"),
    currency: z
      .string()
      .regex(/^[A-Z]{3}$/, "Expected an ISO 4217 code such as EUR")
      .describe("ISO 4217 code of the currency of all amounts, e.g. EUR"),
    seller: PartySchema.describe("Who sends the invoice"),
    buyer: PartySchema.describe("Who pays it"),
    shipTo: PartySchema.pick({ name: true, address: true }).optional().describe("Where it went, if not to the buyer"),
    items: z
      .array(ItemSchema)
      .min(1)
      .max(1000)
      .refine((items) => new Set(items.map(({ taxRate }) => Number(taxRate))).size <= MOST_TAX_RATES, {
        error: `Expected at most ${MOST_TAX_RATES} different tax rates`,
      })
      .describe("What is charged, one item a row"),
    amountPaid: decimal
      .refine((text) => Number(text) >= 0, "Expected zero or more")
      .default("0")
      .describe("What was paid already; it is subtracted from the total"),
    details: z
      .array(LabelledSchema)
      .max(6)
      .default([])
      .describe("More facts beside the dates, e.g. order number or date of delivery"),
    paymentDetails: z.array(LabelledSchema).max(8).default([]).describe("How to pay, e.g. IBAN, BIC and reference"),
    notes: z.string().trim().max(4000).optional().describe("Text below the totals: terms, legal notes, thanks"),
    title: line(30).optional().describe("Heading instead of 'Invoice', e.g. 'Credit note'"),
    taxName: line(20).optional().describe("Name of the tax, e.g. VAT or GST; the locale's own when left out"),
    locale: z
      .enum(Object.keys(LOCALES) as [keyof typeof LOCALES])
      .default("en-US")
      .describe("Language of the labels, and how numbers and dates are written"),
    pageSize: z.enum(["A4", "Letter"]).default("A4").describe("Paper size"),
    accentColor: z
      .string()
      .regex(/^#[0-9a-fA-F]{6}$/, "Expected a colour such as #1f4e79")
      .default("#1f4e79")
      .describe("Colour of headings and of the amount due, as #rrggbb"),
    unsupportedText: z
      .enum(["error", "transliterate"])
      .default("error")
      .describe(
        "For letters outside Western European alphabets: reject them, or write them in plain Latin letters (Łódź as Lodz)",
      ),
  })
  .refine(({ issueDate, dueDate }) => dueDate === undefined || dueDate >= issueDate, {
    error: "Expected a date that is not before issueDate",
    path: ["dueDate"],
  });

const amount = (about: string) => z.string().describe(`${about}, as a decimal, e.g. "1234.50"`);

export const OutputSchema = z.object({
  pdf: z
    .string()
    .meta({ contentEncoding: "base64", contentMediaType: "application/pdf" })
    .describe("The PDF file, as Base64"),
  fileName: z.string().describe("A fitting name for the file"),
  mediaType: z.literal("application/pdf").describe("Media type of the file"),
  bytes: z.int().positive().describe("Size of the PDF file"),
  pages: z.int().positive().describe("Pages of the PDF"),
  currency: z.string().describe("ISO 4217 code of the currency"),
  lineTotals: z.array(z.string()).describe("Net amount of each item, in the order of the items"),
  subtotal: amount("Sum of the items before tax"),
  taxes: z
    .array(
      z.object({
        rate: amount("Rate in percent"),
        net: amount("Sum of the items it applies to"),
        tax: amount("The tax"),
      }),
    )
    .describe("Tax of each rate, rounded once a rate, the lowest rate first"),
  taxTotal: amount("Sum of the taxes"),
  total: amount("Subtotal and taxes"),
  amountPaid: amount("What was paid already"),
  amountDue: amount("What is left to pay"),
});

export type Invoice = z.output<typeof InputSchema>;
export type InvoiceItem = Invoice["items"][number];
export type Party = z.output<typeof PartySchema>;
export type Labelled = z.output<typeof LabelledSchema>;
