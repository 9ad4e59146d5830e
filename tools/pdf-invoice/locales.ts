// How each locale names the parts of an invoice and writes numbers and dates: data only. Not Intl, whose answers change
// with the ICU version and use spaces that the PDF's standard fonts lack; an invoice must come out the same forever.

export interface Locale {
  readonly decimalMark: string;
  readonly groupMark: string;
  /** `symbol` before or after the amount, with or without a space. */
  readonly money: "¤0" | "¤ 0" | "0 ¤";
  readonly date: "month D, YYYY" | "D month YYYY" | "DD.MM.YYYY" | "DD/MM/YYYY" | "DD-MM-YYYY";
  /** Space before a percent sign. */
  readonly percentSpace: string;
  readonly labels: Labels;
}

export interface Labels {
  readonly invoice: string;
  readonly number: string;
  readonly issueDate: string;
  readonly dueDate: string;
  readonly billTo: string;
  readonly shipTo: string;
  readonly taxId: string;
  readonly description: string;
  readonly quantity: string;
  readonly unitPrice: string;
  readonly discount: string;
  readonly tax: string;
  readonly amount: string;
  readonly subtotal: string;
  /** `{tax}`, `{rate}` and `{net}` are filled in. */
  readonly taxOn: string;
  readonly total: string;
  readonly paid: string;
  readonly amountDue: string;
  readonly paymentDetails: string;
  readonly notes: string;
  /** `{page}` and `{pages}` are filled in. */
  readonly pageOf: string;
}

const ENGLISH: Labels = {
  invoice: "Invoice",
  number: "Invoice no.",
  issueDate: "Date",
  dueDate: "Due date",
  billTo: "Bill to",
  shipTo: "Ship to",
  taxId: "Tax ID",
  description: "Description",
  quantity: "Qty",
  unitPrice: "Unit price",
  discount: "Disc.",
  tax: "Tax",
  amount: "Amount",
  subtotal: "Subtotal",
  taxOn: "{tax} {rate} on {net}",
  total: "Total",
  paid: "Paid",
  amountDue: "Amount due",
  paymentDetails: "Payment details",
  notes: "Notes",
  pageOf: "Page {page} of {pages}",
};

const NBSP = "\u00a0";

export const LOCALES = {
  "en-US": {
    decimalMark: ".",
    groupMark: ",",
    money: "¤0",
    date: "month D, YYYY",
    percentSpace: "",
    labels: ENGLISH,
  },
  "en-GB": {
    decimalMark: ".",
    groupMark: ",",
    money: "¤0",
    date: "D month YYYY",
    percentSpace: "",
    labels: { ...ENGLISH, tax: "VAT", taxId: "VAT no." },
  },
  "de-DE": {
    decimalMark: ",",
    groupMark: ".",
    money: "0 ¤",
    date: "DD.MM.YYYY",
    percentSpace: NBSP,
    labels: {
      invoice: "Rechnung",
      number: "Rechnungsnr.",
      issueDate: "Datum",
      dueDate: "Fällig am",
      billTo: "Rechnung an",
      shipTo: "Lieferung an",
      taxId: "USt-IdNr.",
      description: "Beschreibung",
      quantity: "Menge",
      unitPrice: "Einzelpreis",
      discount: "Rabatt",
      tax: "MwSt.",
      amount: "Betrag",
      subtotal: "Zwischensumme",
      taxOn: "{rate} {tax} auf {net}",
      total: "Gesamtbetrag",
      paid: "Bereits bezahlt",
      amountDue: "Zu zahlen",
      paymentDetails: "Zahlungsinformationen",
      notes: "Anmerkungen",
      pageOf: "Seite {page} von {pages}",
    },
  },
  "fr-FR": {
    decimalMark: ",",
    groupMark: NBSP,
    money: "0 ¤",
    date: "DD/MM/YYYY",
    percentSpace: NBSP,
    labels: {
      invoice: "Facture",
      number: "Facture n°",
      issueDate: "Date",
      dueDate: "Échéance",
      billTo: "Facturé à",
      shipTo: "Livré à",
      taxId: "N° TVA",
      description: "Désignation",
      quantity: "Qté",
      unitPrice: "Prix unitaire",
      discount: "Remise",
      tax: "TVA",
      amount: "Montant HT",
      subtotal: "Total HT",
      taxOn: "{tax} {rate} sur {net}",
      total: "Total TTC",
      paid: "Déjà réglé",
      amountDue: "Net à payer",
      paymentDetails: "Coordonnées de paiement",
      notes: "Remarques",
      pageOf: "Page {page} sur {pages}",
    },
  },
  "es-ES": {
    decimalMark: ",",
    groupMark: ".",
    money: "0 ¤",
    date: "DD/MM/YYYY",
    percentSpace: NBSP,
    labels: {
      invoice: "Factura",
      number: "Factura n.º",
      issueDate: "Fecha",
      dueDate: "Vencimiento",
      billTo: "Facturar a",
      shipTo: "Enviar a",
      taxId: "NIF/IVA",
      description: "Descripción",
      quantity: "Cant.",
      unitPrice: "Precio unitario",
      discount: "Dto.",
      tax: "IVA",
      amount: "Importe",
      subtotal: "Base imponible",
      taxOn: "{tax} {rate} sobre {net}",
      total: "Total",
      paid: "Pagado",
      amountDue: "Importe pendiente",
      paymentDetails: "Datos de pago",
      notes: "Notas",
      pageOf: "Página {page} de {pages}",
    },
  },
  "it-IT": {
    decimalMark: ",",
    groupMark: ".",
    money: "0 ¤",
    date: "DD/MM/YYYY",
    percentSpace: NBSP,
    labels: {
      invoice: "Fattura",
      number: "Fattura n.",
      issueDate: "Data",
      dueDate: "Scadenza",
      billTo: "Intestata a",
      shipTo: "Spedita a",
      taxId: "P. IVA",
      description: "Descrizione",
      quantity: "Q.tà",
      unitPrice: "Prezzo unitario",
      discount: "Sconto",
      tax: "IVA",
      amount: "Importo",
      subtotal: "Imponibile",
      taxOn: "{tax} {rate} su {net}",
      total: "Totale",
      paid: "Già pagato",
      amountDue: "Da pagare",
      paymentDetails: "Dati per il pagamento",
      notes: "Note",
      pageOf: "Pagina {page} di {pages}",
    },
  },
  "nl-NL": {
    decimalMark: ",",
    groupMark: ".",
    money: "¤ 0",
    date: "DD-MM-YYYY",
    percentSpace: "",
    labels: {
      invoice: "Factuur",
      number: "Factuurnr.",
      issueDate: "Datum",
      dueDate: "Vervaldatum",
      billTo: "Factuur aan",
      shipTo: "Levering aan",
      taxId: "Btw-id",
      description: "Omschrijving",
      quantity: "Aantal",
      unitPrice: "Prijs per stuk",
      discount: "Korting",
      tax: "Btw",
      amount: "Bedrag",
      subtotal: "Subtotaal",
      taxOn: "{tax} {rate} over {net}",
      total: "Totaal",
      paid: "Reeds betaald",
      amountDue: "Te betalen",
      paymentDetails: "Betaalgegevens",
      notes: "Opmerkingen",
      pageOf: "Pagina {page} van {pages}",
    },
  },
} as const satisfies Record<string, Locale>;

export const ENGLISH_MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
] as const;

/** Symbols of currencies that are not written with their code. All of them are in the PDF's standard fonts. */
export const CURRENCY_SYMBOLS: Readonly<Record<string, string>> = {
  AUD: "A$",
  CAD: "CA$",
  EUR: "€",
  GBP: "£",
  JPY: "¥",
  NZD: "NZ$",
  USD: "$",
};
