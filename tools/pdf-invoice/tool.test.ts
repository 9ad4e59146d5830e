// pdf-invoice, run in the sandbox. The PDF is read back: its text with the place of each piece, and its metadata.
import { readFile } from "node:fs/promises";
import { type OpenedTool, openTool, undescribed } from "glovebox/testing";
import { decodePDFRawStream, PDFArray, PDFDocument, PDFName, type PDFPage, PDFRawStream, StandardFonts } from "pdf-lib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

interface InvoiceFile {
  readonly pdf: string;
  readonly fileName: string;
  readonly mediaType: string;
  readonly bytes: number;
  readonly pages: number;
  readonly currency: string;
  readonly lineTotals: readonly string[];
  readonly subtotal: string;
  readonly taxes: readonly { readonly rate: string; readonly net: string; readonly tax: string }[];
  readonly taxTotal: string;
  readonly total: string;
  readonly amountPaid: string;
  readonly amountDue: string;
}

/** One piece of text as a page shows it; `x` is its left end, `y` its base line. */
interface Piece {
  readonly text: string;
  readonly font: string;
  readonly size: number;
  readonly x: number;
  readonly y: number;
}

let tool: OpenedTool;
let example: Record<string, unknown>;
beforeAll(async () => {
  tool = await openTool(import.meta.dirname);
  example = JSON.parse(await readFile(new URL("example.json", import.meta.url), "utf8")) as Record<string, unknown>;
});
afterAll(() => tool[Symbol.asyncDispose]());

const SMALLEST = {
  number: "1",
  issueDate: "2026-01-31",
  currency: "EUR",
  seller: { name: "Seller", address: ["Street 1"] },
  buyer: { name: "Buyer", address: ["Street 2"] },
  items: [{ description: "Thing", unitPrice: 1 }],
};

async function makeInvoice(invoice: object): Promise<{ readonly file: InvoiceFile; readonly pdf: PDFDocument }> {
  const file = await tool.output<InvoiceFile>(invoice);
  const pdf = await PDFDocument.load(Buffer.from(file.pdf, "base64"), { updateMetadata: false });
  return { file, pdf };
}

/** Reads what pdf-lib's drawText writes: font and size, place, then the text in hex and Windows-1252. */
function readPage(page: PDFPage): Piece[] {
  const contents = page.node.Contents();
  const parts = contents instanceof PDFArray ? contents.asArray() : [contents];
  const streams = parts.map((part) => page.doc.context.lookup(part)).filter((part) => part instanceof PDFRawStream);
  const code = streams.map((stream) => Buffer.from(decodePDFRawStream(stream).decode()).toString("latin1")).join("\n");
  const piece = /\/(\S+) ([\d.]+) Tf[^<]*?1 0 0 1 (-?[\d.]+) (-?[\d.]+) Tm\s*<([0-9A-Fa-f]*)> Tj/g;
  return [...code.matchAll(piece)].map(([, font = "", size, x, y, hex = ""]) => ({
    text: new TextDecoder("windows-1252").decode(Buffer.from(hex, "hex")),
    font: fontName(page, font),
    size: Number(size),
    x: Number(x),
    y: Number(y),
  }));
}

function fontName(page: PDFPage, key: string): string {
  const font = page.node.normalizedEntries().Font.lookup(PDFName.of(key));
  return String(page.doc.context.lookup(font)).match(/\/BaseFont \/(\S+)/)?.[1] ?? "";
}

const readText = (pdf: PDFDocument): string[] =>
  pdf.getPages().flatMap((page) => readPage(page).map(({ text }) => text));

test("pdf-invoice describes every field", () => {
  const { inputSchema, outputSchema } = tool.definition;
  expect([...undescribed(inputSchema), ...undescribed(outputSchema)]).toEqual([]);
});

describe("pdf-invoice on its example", () => {
  let file: InvoiceFile;
  let pdf: PDFDocument;
  let pieces: readonly Piece[];
  beforeAll(async () => {
    ({ file, pdf } = await makeInvoice(example));
    pieces = pdf.getPages().flatMap(readPage);
  });

  test("adds up as it was done by hand", () => {
    expect(file).toMatchObject({
      // 3 × 1249.90 × 0.925; 12.5 × 96.40; 2 × 38.32; 184250 × 0.00175; 150; -420
      lineTotals: ["3468.47", "1205.00", "76.64", "322.44", "150.00", "-420.00"],
      subtotal: "4802.55",
      taxes: [
        { rate: "0", net: "150.00", tax: "0.00" },
        { rate: "7", net: "76.64", tax: "5.36" },
        { rate: "19", net: "4575.91", tax: "869.42" },
      ],
      taxTotal: "874.78",
      total: "5677.33",
      amountPaid: "1000.00",
      amountDue: "4677.33",
    });
  });

  test("is one A4 page whose metadata comes from the invoice alone", () => {
    expect(file).toMatchObject({ pages: 1, fileName: "invoice-2026-0042.pdf", mediaType: "application/pdf" });
    expect(file.bytes).toBe(Buffer.from(file.pdf, "base64").length);
    expect(Buffer.from(file.pdf, "base64").subarray(0, 5).toString()).toBe("%PDF-");
    expect(pdf.getPageCount()).toBe(1);
    expect(pdf.getPage(0).getSize()).toEqual({ width: 595.28, height: 841.89 });
    expect(pdf.getTitle()).toBe("Invoice 2026-0042");
    expect(pdf.getAuthor()).toBe("Nordlicht Instruments GmbH");
    expect(pdf.getCreationDate()).toEqual(new Date("2026-03-14T00:00:00Z"));
    expect(pdf.getModificationDate()).toEqual(new Date("2026-03-14T00:00:00Z"));
  });

  test("prints parties, items, taxes and sums", () => {
    const texts = pieces.map(({ text }) => text);
    for (const expected of [
      "Hafenstraße 12",
      "Laboratoire Océan Bleu S.A.",
      "R/V Étoile du Nord",
      "14 March 2026",
      "PO-77813",
      "Handbook “Measuring the Sea”, 4th edition",
      "184,250 KiB",
      "€0.00175",
      "7.5%",
      "-€420.00",
      "VAT 19% on €4,575.91",
      "€869.42",
      "-€1,000.00",
      "DE89 3704 0044 0532 0130 00",
      "Page 1 of 1",
    ]) {
      expect(texts).toContain(expected);
    }
    expect(texts.filter((text) => text === "€4,677.33")).toHaveLength(2);
  });

  test("ends every amount at the same right edge", async () => {
    const fonts = await PDFDocument.create();
    const faces = {
      [StandardFonts.Helvetica]: await fonts.embedFont(StandardFonts.Helvetica),
      [StandardFonts.HelveticaBold]: await fonts.embedFont(StandardFonts.HelveticaBold),
    };
    const rightEnd = ({ text, font, size, x }: Piece) => {
      const face = faces[font as keyof typeof faces];
      // One character at a time: drawn text is not kerned.
      return [...text].reduce((end, character) => end + face.widthOfTextAtSize(character, size), x);
    };
    const amounts = ["€3,468.47", "€76.64", "-€420.00", "€4,802.55", "€869.42", "€5,677.33", "-€1,000.00"];
    for (const amount of amounts) {
      const ends = pieces.filter(({ text }) => text === amount).map(rightEnd);
      expect(Math.max(...ends)).toBeCloseTo(595.28 - 48 - 6, 2);
    }
  });

  test("is the same file for the same invoice", async () => {
    expect((await tool.output<InvoiceFile>(example)).pdf).toBe(file.pdf);
  });
});

interface Sum {
  readonly about: string;
  readonly currency?: string;
  readonly items: readonly object[];
  readonly expected: object;
}

const item = (unitPrice: number | string, more: object = {}) => ({ description: "Thing", unitPrice, ...more });

/** Every expected figure was worked out by hand. */
const SUMS: readonly Sum[] = [
  {
    about: "a half cent away from zero, on both sides of it",
    items: [item("0.335"), item("-0.335"), item("0.334999"), item("0.005")],
    expected: { lineTotals: ["0.34", "-0.34", "0.33", "0.01"], subtotal: "0.34" },
  },
  {
    about: "decimals that binary fractions miss",
    items: [item(1.005), item(0.1, { quantity: 3 }), item(1.1, { quantity: 1.1 })],
    expected: { lineTotals: ["1.01", "0.30", "1.21"], subtotal: "2.52" },
  },
  {
    about: "each rate's tax once, not once a row",
    // A row of 0.03 at 19 % has 0.0057 of tax: rounded by row that is 0.03, by rate 0.02 (0.0171).
    items: [item(0.03, { taxRate: 19 }), item(0.03, { taxRate: "19.0" }), item("0.03", { taxRate: "19" })],
    expected: { taxes: [{ rate: "19", net: "0.09", tax: "0.02" }], taxTotal: "0.02", total: "0.11" },
  },
  {
    about: "rates with decimals, the lowest first",
    items: [item(100, { taxRate: "8.875" }), item(100, { taxRate: 5.5 }), item(100)],
    expected: {
      taxes: [
        { rate: "0", net: "100.00", tax: "0.00" },
        { rate: "5.5", net: "100.00", tax: "5.50" },
        { rate: "8.875", net: "100.00", tax: "8.88" },
      ],
      total: "314.38",
    },
  },
  {
    about: "discounts of a row",
    items: [item(99.99, { discountPercent: 33.333 }), item(10, { discountPercent: 100 })],
    expected: { lineTotals: ["66.66", "0.00"] },
  },
  {
    about: "tax that a credit takes back",
    items: [item(100, { taxRate: 20 }), item(-100.03, { taxRate: 20 })],
    expected: { taxes: [{ rate: "20", net: "-0.03", tax: "-0.01" }], total: "-0.04" },
  },
  {
    about: "yen, which have no cents",
    currency: "JPY",
    items: [item(99.5, { taxRate: 10 }), item(100, { quantity: "0.004", taxRate: 10 })],
    expected: { lineTotals: ["100", "0"], taxTotal: "10", total: "110", amountPaid: "0" },
  },
  {
    about: "dinars, which have thousandths",
    currency: "KWD",
    items: [item("1.2345"), item(2)],
    expected: { lineTotals: ["1.235", "2.000"], total: "3.235" },
  },
  {
    about: "more than a double can hold",
    items: [item("999999999.99", { quantity: "999999999" }), item("0.01")],
    expected: { lineTotals: ["999999998990000000.01", "0.01"], total: "999999998990000000.02" },
  },
];

test.for(SUMS)("pdf-invoice adds up $about", async ({ currency = "EUR", items, expected }) => {
  expect(await tool.output<InvoiceFile>({ ...SMALLEST, currency, items })).toMatchObject(expected);
});

test.for<[string, string, readonly string[]]>([
  ["en-US", "USD", ["Invoice", "January 31, 2026", "$1,234.50", "-$0.50", "Tax 7.5% on $1,234.00"]],
  [
    "en-GB",
    "CHF",
    ["Invoice", "31 January 2026", "CHF\u00a01,234.50", "-CHF\u00a00.50", "VAT 7.5% on CHF\u00a01,234.00"],
  ],
  [
    "de-DE",
    "EUR",
    ["Rechnung", "31.01.2026", "1.234,50\u00a0€", "-0,50\u00a0€", "7,5\u00a0% MwSt. auf 1.234,00\u00a0€"],
  ],
  ["fr-FR", "EUR", ["Facture", "31/01/2026", "1\u00a0234,50\u00a0€", "TVA 7,5\u00a0% sur 1\u00a0234,00\u00a0€"]],
  ["es-ES", "EUR", ["Factura", "31/01/2026", "1.234,50\u00a0€", "IVA 7,5\u00a0% sobre 1.234,00\u00a0€"]],
  ["it-IT", "EUR", ["Fattura", "31/01/2026", "1.234,50\u00a0€", "IVA 7,5\u00a0% su 1.234,00\u00a0€"]],
  ["nl-NL", "EUR", ["Factuur", "31-01-2026", "€\u00a01.234,50", "€\u00a0-0,50", "Btw 7,5% over €\u00a01.234,00"]],
])("pdf-invoice writes labels, dates and money for %s", async ([locale, currency, expected]) => {
  const items = [item(1234.5, { taxRate: 7.5 }), item(-0.5, { taxRate: 7.5 })];
  const { pdf } = await makeInvoice({ ...SMALLEST, locale, currency, items });
  const texts = readText(pdf);
  for (const text of expected) expect(texts).toContain(text);
});

test("pdf-invoice goes on over pages: table head, page number and every row on each, notes to the end", async () => {
  const items = Array.from({ length: 120 }, (_, index) =>
    item("9.99", { description: `Item ${index}`, ...(index % 7 === 0 ? { details: "small print ".repeat(40) } : {}) }),
  );
  const notes = `${"Terms and conditions apply. ".repeat(140)}The end.`;
  const { file, pdf } = await makeInvoice({ ...SMALLEST, items, notes, pageSize: "Letter" });
  expect(file.pages).toBeGreaterThan(4);
  expect(pdf.getPageCount()).toBe(file.pages);
  const pages = pdf.getPages().map(readPage);
  const seen: string[] = [];
  pages.forEach((pieces, index) => {
    const texts = pieces.map(({ text }) => text);
    expect(texts).toContain(`Page ${index + 1} of ${file.pages}`);
    const rows = texts.filter((text) => /^Item \d+$/.test(text));
    if (rows.length > 0) expect(texts).toContain("Description");
    seen.push(...rows);
    for (const { x, y } of pieces) {
      expect(x).toBeGreaterThanOrEqual(48);
      expect(y).toBeGreaterThanOrEqual(40);
      expect(y).toBeLessThanOrEqual(792 - 48);
    }
  });
  expect(seen).toEqual(items.map(({ description }) => description));
  expect(readText(pdf).join(" ")).toContain("The end.");
});

test("pdf-invoice keeps everything on the page, however long the texts and wide the amounts", async () => {
  const wide = (length: number) => "W".repeat(length);
  const party = {
    name: wide(120),
    address: Array.from({ length: 6 }, () => wide(40)),
    taxId: wide(60),
    email: wide(80),
  };
  const labelled = { label: wide(60), value: wide(120) };
  const items = [
    {
      description: wide(300),
      details: "line\n".repeat(190),
      quantity: "999999999.999999",
      unit: wide(20),
      unitPrice: "999999999.999999",
    },
    { description: "x", unitPrice: "-999999999.999999", discountPercent: "33.333333", taxRate: "99.999999" },
  ];
  const { pdf } = await makeInvoice({
    ...SMALLEST,
    currency: "CHF",
    title: wide(30),
    number: wide(40),
    seller: party,
    buyer: party,
    shipTo: { name: party.name, address: party.address },
    items,
    details: [labelled, labelled],
    paymentDetails: Array.from({ length: 8 }, () => labelled),
    notes: "line\n".repeat(700),
  });
  const pieces = pdf.getPages().flatMap(readPage);
  expect(pieces.filter(({ text }) => text === "line")).toHaveLength(890);
  for (const { x, y } of pieces) {
    expect(x).toBeGreaterThanOrEqual(48 - 0.01);
    expect(x).toBeLessThanOrEqual(595 - 48);
    expect(y).toBeGreaterThanOrEqual(40);
    expect(y).toBeLessThanOrEqual(842 - 40);
  }
});

test("pdf-invoice wraps what is too wide, and loses none of it", async () => {
  const word = "Donaudampfschifffahrtsgesellschaft".repeat(6).slice(0, 200);
  const { pdf } = await makeInvoice({
    ...SMALLEST,
    items: [item(1, { description: `${word} and more words after it` })],
  });
  expect(readText(pdf).join("").replaceAll(" ", "")).toContain(`${word}andmorewordsafterit1€1.00`);
});

test("pdf-invoice prints Western European text, and rejects or spells out the rest as told", async () => {
  const western = "Ærøskøbing ÿ Œuvre Šibenik € ‰ „x“ … – — ‘y’ ™";
  const { pdf } = await makeInvoice({
    ...SMALLEST,
    buyer: { name: western, address: ["e\u0301 a\u202fb\u2212c\u200b"] },
  });
  expect(readText(pdf)).toContain(western);
  expect(readText(pdf)).toContain("é a\u00a0b-c");

  const polish = { ...SMALLEST, buyer: { name: "Żółw Łukasz", address: ["ul. Święta 5, Łódź"] } };
  expect(await tool.failure(polish)).toMatch(/^TOOL_FAILED: buyer\.name has characters .*Ż \(U\+017B\).*transliterate/);
  const spelled = await makeInvoice({ ...polish, unsupportedText: "transliterate" });
  expect(readText(spelled.pdf)).toContain("Zólw Lukasz");
  expect(readText(spelled.pdf)).toContain("ul. Swieta 5, Lódz");

  const japanese = { ...SMALLEST, items: [item(1), item(1, { details: "東京" })], unsupportedText: "transliterate" };
  expect(await tool.failure(japanese)).toMatch(/^TOOL_FAILED: items\[1\]\.details has characters .*東 \(U\+6771\), 京/);
});

const withItem = (fields: object) => ({ ...SMALLEST, items: [{ description: "Thing", unitPrice: 1, ...fields }] });

test.for<[string, unknown, RegExp]>([
  ["nothing", {}, /^PARAM_INVALID/],
  ["no items", { ...SMALLEST, items: [] }, /^PARAM_INVALID.*items/],
  ["a day that no calendar has", { ...SMALLEST, issueDate: "2026-02-30" }, /^PARAM_INVALID.*issueDate/],
  [
    "a due date before the invoice",
    { ...SMALLEST, dueDate: "2026-01-30" },
    /^PARAM_INVALID.*dueDate.*not before issueDate/,
  ],
  ["a currency that is no code", { ...SMALLEST, currency: "euro" }, /^PARAM_INVALID.*currency/],
  [
    "a price with noise of binary fractions",
    withItem({ unitPrice: 0.1 + 0.2 }),
    /^PARAM_INVALID.*unitPrice.*at most 6 places/,
  ],
  ["a price in words", withItem({ unitPrice: "1,50" }), /^PARAM_INVALID.*unitPrice/],
  ["a price beyond all bounds", withItem({ unitPrice: 1e10 }), /^PARAM_INVALID.*unitPrice/],
  ["a tax above 100 %", withItem({ taxRate: 120 }), /^PARAM_INVALID.*taxRate.*percentage from 0 to 100/],
  [
    "more tax rates than fit below the items",
    { ...SMALLEST, items: Array.from({ length: 13 }, (_, rate) => item(1, { taxRate: rate })) },
    /^PARAM_INVALID.*items.*at most 12 different tax rates/,
  ],
  ["a discount below 0 %", withItem({ discountPercent: -1 }), /^PARAM_INVALID.*discountPercent/],
  ["a payment below zero", { ...SMALLEST, amountPaid: -1 }, /^PARAM_INVALID.*amountPaid/],
  ["an unknown locale", { ...SMALLEST, locale: "tlh" }, /^PARAM_INVALID.*locale/],
  ["an unknown field", { ...SMALLEST, vat: 19 }, /^PARAM_INVALID.*vat/],
  ["a list", [SMALLEST], /^PARAM_INVALID/],
])("pdf-invoice rejects %s", async ([, args, expected]) => {
  expect(await tool.failure(args)).toMatch(expected);
});
