// Makes text printable in the PDF's standard fonts, which contain Windows-1252 only: replaces, transliterates or rejects characters.

/** Windows-1252 above Latin-1. */
const EXTRA = new Set("€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ");

/** Look the same, or carry no meaning in print: replaced in any case. */
const SAME_IN_PRINT: Readonly<Record<string, string>> = {
  "\t": " ",
  "\u00ad": "",
  "\u2002": " ",
  "\u2003": " ",
  "\u2007": "\u00a0",
  "\u2009": " ",
  "\u200a": " ",
  "\u200b": "",
  "\u200c": "",
  "\u200d": "",
  "\u200e": "",
  "\u200f": "",
  "\u2010": "-",
  "\u2011": "-",
  "\u2012": "–",
  "\u2015": "—",
  "\u202f": "\u00a0",
  "\u2060": "",
  "\u2212": "-",
  "\ufeff": "",
};

/** Letters and signs that Unicode does not take apart into a plain letter and a mark. */
const SPELLED_OUT: Readonly<Record<string, string>> = {
  Ł: "L",
  ł: "l",
  Đ: "D",
  đ: "d",
  Ħ: "H",
  ħ: "h",
  Ŧ: "T",
  ŧ: "t",
  Ŋ: "N",
  ŋ: "n",
  ı: "i",
  ĸ: "k",
  ẞ: "SS",
  Ə: "A",
  ə: "a",
  "₹": "INR",
  "₺": "TRY",
  "₽": "RUB",
  "₩": "KRW",
  "₴": "UAH",
  "₪": "ILS",
  "→": "->",
  "←": "<-",
  "≤": "<=",
  "≥": ">=",
  "≠": "!=",
  "≈": "~",
  "′": "'",
  "″": '"',
  "✓": "x",
};

type UnsupportedText = "error" | "transliterate";

function isPrintable(character: string): boolean {
  const code = character.codePointAt(0) ?? 0;
  return (code >= 0x20 && code <= 0x7e) || (code >= 0xa0 && code <= 0xff) || EXTRA.has(character);
}

/**
 * @param field where the text stands in the input, for the message
 * @throws {Error} naming the characters that cannot be printed
 */
function toPrintable(text: string, field: string, unsupported: UnsupportedText): string {
  const rejected = new Set<string>();
  let printable = "";
  for (const character of text.normalize("NFC").replace(/\r\n?/g, "\n")) {
    const replaced = character === "\n" || isPrintable(character) ? character : replace(character, unsupported);
    if (replaced === undefined) rejected.add(character);
    else printable += replaced;
  }
  if (rejected.size > 0) throw new Error(unprintableMessage([...rejected], field, unsupported));
  return printable;
}

function replace(character: string, unsupported: UnsupportedText): string | undefined {
  const same = SAME_IN_PRINT[character];
  if (same !== undefined) return same;
  if (unsupported === "error") return undefined;
  const spelled = SPELLED_OUT[character] ?? character.normalize("NFKD").replace(/\p{M}/gu, "");
  return spelled !== "" && [...spelled].every(isPrintable) ? spelled : undefined;
}

const SHOWN = 5;

function unprintableMessage(characters: readonly string[], field: string, unsupported: UnsupportedText): string {
  const shown = characters.slice(0, SHOWN).map((character) => {
    const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    return /[\p{C}\p{Z}]/u.test(character) ? `U+${code}` : `${character} (U+${code})`;
  });
  const more = characters.length > SHOWN ? ` and ${characters.length - SHOWN} more` : "";
  const advice =
    unsupported === "error"
      ? 'write it in Latin letters, or set unsupportedText to "transliterate"'
      : "it has no plain spelling in Latin letters; write it in them";
  return `${field} has characters that the PDF's fonts cannot print: ${shown.join(", ")}${more}; ${advice}`;
}

/** A copy of a JSON value whose every string is printable; `field` names the place, e.g. `invoice.items[2].description`. */
export function toPrintableJson<Value>(value: Value, field: string, unsupported: UnsupportedText): Value {
  return walk(value, field, unsupported) as Value;
}

function walk(value: unknown, field: string, unsupported: UnsupportedText): unknown {
  if (typeof value === "string") return toPrintable(value, field, unsupported);
  if (Array.isArray(value)) return value.map((item, index) => walk(item, `${field}[${index}]`, unsupported));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      key,
      walk(member, field === "" ? key : `${field}.${key}`, unsupported),
    ]),
  );
}
