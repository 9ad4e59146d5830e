// Decides whether a name denotes a secret. Names are split into words in any case style: `apiKey`, `api_key`, `API-KEY` and `apikey` are
// equal, and `monkey` does not match.
import {
  NON_SECRET_PREFIXES,
  NON_SECRET_SUFFIXES,
  QUANTITY_BEFORE,
  SECRET_ENDINGS,
  SECRET_PHRASES,
  SECRET_WORDS,
  TOKEN_KINDS,
} from "./key-words.ts";

/** Longer names are read up to this length, in UTF-16 code units. */
const MAX_NAME_LENGTH = 256;

/** A word: ends between lower and upper case, before the last capital of an acronym, and at digits and punctuation. */
const WORD = /\p{Lu}+(?!\p{Ll})|\p{Lu}?\p{Ll}+|[\p{Lo}\p{Lm}]+/gu;

/** Splits a name into words: `X-API-Key` becomes `["x", "api", "key"]`. Digits are dropped. */
export function wordsOf(name: string): string[] {
  const text = name.slice(0, MAX_NAME_LENGTH).normalize("NFKC");
  return (text.match(WORD) ?? []).map((word) => word.toLowerCase());
}

/** The range of words that name a secret. */
interface WordRange {
  readonly from: number;
  readonly to: number;
}

function phraseAt(words: readonly string[], at: number): number {
  let longest = 0;
  for (const phrase of SECRET_PHRASES.get(words[at] ?? "") ?? []) {
    if (phrase.length > longest && phrase.every((word, index) => words[at + index] === word)) longest = phrase.length;
  }
  return longest;
}

/** Returns whether a compound word without boundaries names a secret: `dbpassword`, `clientsecret`. */
const endsInSecret = (word: string): boolean => SECRET_ENDINGS.some((ending) => word.endsWith(ending));

function isSecretWord(words: readonly string[], at: number): boolean {
  const word = words[at] ?? "";
  // Models count `tokens`; tokens of some kinds are secrets.
  if (word === "tokens") return TOKEN_KINDS.has(words[at - 1] ?? "");
  // A name may be `pass` alone, or end with it after an owner: `db_pass`.
  if (word === "pass") return at === words.length - 1 && (words.length === 1 || PASS_OWNERS.has(words[at - 1] ?? ""));
  // `bearerAuth` and `bearerFormat` are words of OpenAPI.
  if (word === "bearer") return at === words.length - 1;
  if (word === "auth") return at === words.length - 1 && words.slice(0, at).every((before) => before === "x");
  return SECRET_WORDS.has(word) || endsInSecret(word);
}
const PASS_OWNERS = new Set(
  "db database user username login smtp ftp sftp mail email imap mysql pg postgres redis mongo admin root http proxy".split(
    " ",
  ),
);

function lastFound(words: readonly string[]): WordRange | undefined {
  for (let at = words.length - 1; at >= 0; at -= 1) {
    const length = phraseAt(words, at);
    if (length > 0) return { from: at, to: at + length };
    if (isSecretWord(words, at)) return { from: at, to: at + 1 };
  }
  return undefined;
}

/** Returns whether the token is a quantity or a position in a list: `maxToken`, `nextPageToken`. */
const isCounted = (words: readonly string[], { from }: WordRange): boolean =>
  words[from] === "token" && QUANTITY_BEFORE.has(words[from - 1] ?? "");

const cache = new Map<string, boolean>();
/** Cache size. The names of one program repeat; a hostile program's need not. */
const MAX_CACHE_SIZE = 1_000;

/**
 * Returns whether a value under this name is a secret. The last words decide: `accessToken` is a token, `tokenCount` a number, and
 * `passwordResetUrl` a URL.
 */
export function isSecretName(name: string): boolean {
  const before = cache.get(name);
  if (before !== undefined) return before;
  const is = decide(name);
  if (cache.size >= MAX_CACHE_SIZE) cache.clear();
  if (name.length <= MAX_NAME_LENGTH) cache.set(name, is);
  return is;
}

function decide(name: string): boolean {
  const words = wordsOf(name);
  const found = lastFound(words);
  // `APIkey`: the end of the acronym is not visible.
  if (found === undefined) return endsInSecret(words.join(""));
  const { from, to } = found;
  if (words.slice(0, from).some((word) => NON_SECRET_PREFIXES.has(word)) || isCounted(words, found)) return false;
  return !words.slice(to).some((word) => NON_SECRET_SUFFIXES.has(word));
}

/** Names that a host configures, split in the same way: `customerCode` also matches `customer_code` and `X-Customer-Code`. */
export class NameSet {
  readonly #phrases: readonly (readonly string[])[];

  constructor(names: readonly string[]) {
    this.#phrases = names.map(wordsOf).filter((words) => words.length > 0);
  }

  /** Returns whether one of the names occurs in this name as whole words. */
  has(name: string): boolean {
    if (this.#phrases.length === 0) return false;
    const words = wordsOf(name);
    return this.#phrases.some((phrase) =>
      words.some((_, at) => phrase.every((word, index) => words[at + index] === word)),
    );
  }
}
