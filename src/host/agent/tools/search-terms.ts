// Normalizes the words of names, descriptions and requests to search terms, so that `sendEmails`, `send_email` and "sent emails" match.

/** Words that occur in nearly every request and description. */
const STOP_WORDS: ReadonlySet<string> = new Set(
  (
    "a an and are as at be been but by can could did do does for from had has have how i if in into is it its me my of on or our " +
    "please should so some that the their them then there these this those to tool up us use used was we were what when where which " +
    "who will with would you your"
  ).split(" "),
);

/** Scripts written without spaces between words. */
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Khmer}\p{Script=Lao}]/u;
const MARKS = /\p{M}+/gu;
/** Word boundaries in camelCase: `sendEmail`, `HTTPServer`, `s3Bucket`, `utf8Decode`. */
const CAMEL_CASE_BOUNDARIES = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu;
const BETWEEN_WORDS = /[^\p{L}\p{N}]+/u;
const MAX_WORD_LENGTH = 64;

let segmenter: Intl.Segmenter | undefined;

function segment(text: string): readonly string[] {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: "word" });
  return [...segmenter.segment(text)].flatMap(({ segment: word, isWordLike }) => (isWordLike ? [word] : []));
}

/** Splits a text into words: at camelCase, snake_case, kebab-case and dots, and by segmentation for scripts without spaces. */
export function toWords(text: string): string[] {
  const plain = text.normalize("NFKD").replace(MARKS, "").replace(CAMEL_CASE_BOUNDARIES, " ");
  const words = plain.split(BETWEEN_WORDS).filter((word) => word !== "");
  return words.flatMap((word) => (UNSPACED.test(word) ? segment(word.normalize("NFKC")) : [word]));
}

/**
 * Returns the search term of a word: lower case, without common English endings; null for a stop word. The stemming is crude, which is
 * sufficient because the index and the query use the same rules.
 */
export function toTerm(word: string): string | null {
  const lower = word.toLowerCase();
  if (lower.length > MAX_WORD_LENGTH || STOP_WORDS.has(lower)) return null;
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

/** Makes `create`, `creating` and `created` the same term. */
const trimE = (term: string): string => (term.length > 4 && term.endsWith("e") ? term.slice(0, -1) : term);

/** Verbs of tool names and of requests. The words of a row are synonyms. */
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

/** Returns the synonyms of a term, without the term itself. */
export const synonymsOf = (term: string): readonly string[] =>
  (SYNONYMS.get(term) ?? []).filter((other) => other !== term);
