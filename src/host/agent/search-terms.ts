// Words of names, descriptions and requests, made alike on both sides of a search: `sendEmails`, `send_email` and "sent emails" meet.

/** Words that stand in every request and description. */
const STOP_WORDS: ReadonlySet<string> = new Set(
  (
    "a an and are as at be been but by can could did do does for from had has have how i if in into is it its me my of on or our " +
    "please should so some that the their them then there these this those to tool up us use used was we were what when where which " +
    "who will with would you your"
  ).split(" "),
);

/** Scripts that are written without spaces between words. */
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Khmer}\p{Script=Lao}]/u;
const MARKS = /\p{M}+/gu;
/** `sendEmail`, `HTTPServer`, `s3Bucket`, `utf8Decode`: where one word ends and the next begins. */
const HUMPS = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu;
const BETWEEN_WORDS = /[^\p{L}\p{N}]+/u;
const MAX_WORD_UNITS = 64;

let segmenter: Intl.Segmenter | undefined;

function segment(text: string): readonly string[] {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: "word" });
  return [...segmenter.segment(text)].flatMap(({ segment: word, isWordLike }) => (isWordLike ? [word] : []));
}

/** A text's words: camelCase, snake_case, kebab-case and dots come apart, and so do words of scripts without spaces. */
export function toWords(text: string): string[] {
  const plain = text.normalize("NFKD").replace(MARKS, "").replace(HUMPS, " ");
  const words = plain.split(BETWEEN_WORDS).filter((word) => word !== "");
  return words.flatMap((word) => (UNSPACED.test(word) ? segment(word.normalize("NFKC")) : [word]));
}

/**
 * A word as it is looked for, without the endings of English that requests and descriptions differ in; null for one that says nothing.
 * Crude, and the same on both sides, which is all that counts.
 */
export function toTerm(word: string): string | null {
  const lower = word.toLowerCase();
  if (lower.length > MAX_WORD_UNITS || STOP_WORDS.has(lower)) return null;
  if (lower.length <= 3) return lower;
  const singular = lower
    .replace(/ies$/, "y")
    .replace(/(?<=ss|sh|ch|x|z)es$/, "")
    .replace(/(?<![su])s$/, "");
  const stem = singular.replace(/(?:ing|ed)$/, "");
  if (stem === singular || stem.length < 3 || !/[aeiouy]/.test(stem)) return trimE(singular);
  // `running`, `planned`: the last letter was doubled.
  return trimE(/([bdgmnprt])\1$/.test(stem) ? stem.slice(0, -1) : stem);
}

/** `create`, `creating` and `created` are one. */
const trimE = (term: string): string => (term.length > 4 && term.endsWith("e") ? term.slice(0, -1) : term);

/** What tools do, as names have it and as people say it: a word of a request stands for the others of its row too. */
const ACTIONS = [
  "create add make new insert open register",
  "get fetch retrieve read show view look see check",
  "list all every show enumerate browse",
  "search find look query locate seek",
  "update edit change modify set adjust rename",
  "delete remove erase drop rid destroy clear",
  "send post deliver notify forward",
  "copy duplicate clone",
  "share invite access grant",
  "export download save",
  "import upload load",
  "run execute start launch trigger",
  "stop cancel end abort halt",
  "schedule book plan reserve",
  "convert transform translate turn",
  "count total sum number",
] as const;

const SYNONYMS: ReadonlyMap<string, readonly string[]> = (() => {
  const synonyms = new Map<string, string[]>();
  for (const row of ACTIONS) {
    const terms = row.split(" ").map((word) => toTerm(word) ?? word);
    for (const term of terms) synonyms.set(term, [...(synonyms.get(term) ?? []), ...terms]);
  }
  return synonyms;
})();

/** Terms that mean the same as this one where it names what is to be done; itself is not among them. */
export const synonymsOf = (term: string): readonly string[] =>
  (SYNONYMS.get(term) ?? []).filter((other) => other !== term);
