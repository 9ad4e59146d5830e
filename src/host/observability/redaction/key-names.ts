// Is what stands under this name a secret? Names are read as words, in any case style: `apiKey`, `api_key`, `API-KEY` and `apikey` are
// one, and `monkey` is none of them.
import {
  MODEST_BEHIND,
  NON_SECRET_PREFIXES,
  QUANTITY_BEFORE,
  SECRET_ENDINGS,
  SECRET_PHRASES,
  SECRET_WORDS,
  TOKEN_KINDS,
} from "./key-words.ts";

/** Longer names are read as far as this. */
const MAX_NAME_UNITS = 256;

/** Between small and large letters, before the last large letter of an acronym, around digits and signs. */
const WORD = /\p{Lu}+(?!\p{Ll})|\p{Lu}?\p{Ll}+|[\p{Lo}\p{Lm}]+/gu;

/** `X-API-Key` is `["x", "api", "key"]`. Digits are no words. */
export function wordsOf(name: string): string[] {
  const text = name.slice(0, MAX_NAME_UNITS).normalize("NFKC");
  return (text.match(WORD) ?? []).map((word) => word.toLowerCase());
}

/** Where words begin that name a secret, and where they end. */
interface Found {
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

/** Words without a boundary between them: `dbpassword`, `clientsecret`. */
const endsInSecret = (word: string): boolean => SECRET_ENDINGS.some((ending) => word.endsWith(ending));

function isSecretWord(words: readonly string[], at: number): boolean {
  const word = words[at] ?? "";
  // Many tokens are what models count; of some kinds they are secrets.
  if (word === "tokens") return TOKEN_KINDS.has(words[at - 1] ?? "");
  // A name may be `pass` and nothing else, or somebody's.
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

function lastFound(words: readonly string[]): Found | undefined {
  for (let at = words.length - 1; at >= 0; at -= 1) {
    const length = phraseAt(words, at);
    if (length > 0) return { from: at, to: at + length };
    if (isSecretWord(words, at)) return { from: at, to: at + 1 };
  }
  return undefined;
}

/** `maxToken`, `nextPageToken`: a quantity, or a place in a list. */
const isCounted = (words: readonly string[], { from }: Found): boolean =>
  words[from] === "token" && QUANTITY_BEFORE.has(words[from - 1] ?? "");

const known = new Map<string, boolean>();
/** Names of one program come again and again; those of a hostile one do not. */
const MAX_KNOWN = 1_000;

/**
 * Whether a value under this name is a secret. The last words decide: `accessToken` is a token, `tokenCount` a count, `passwordResetUrl`
 * an address.
 */
export function isSecretName(name: string): boolean {
  const before = known.get(name);
  if (before !== undefined) return before;
  const is = decide(name);
  if (known.size >= MAX_KNOWN) known.clear();
  if (name.length <= MAX_NAME_UNITS) known.set(name, is);
  return is;
}

function decide(name: string): boolean {
  const words = wordsOf(name);
  const found = lastFound(words);
  // `APIkey`: where an acronym ends cannot be seen.
  if (found === undefined) return endsInSecret(words.join(""));
  const { from, to } = found;
  if (words.slice(0, from).some((word) => NON_SECRET_PREFIXES.has(word)) || isCounted(words, found)) return false;
  return !words.slice(to).some((word) => MODEST_BEHIND.has(word));
}

/** Names of a host's own, read in the same way: `customerCode` is also `customer_code` and `X-Customer-Code`. */
export class NameSet {
  readonly #phrases: readonly (readonly string[])[];

  constructor(names: readonly string[]) {
    this.#phrases = names.map(wordsOf).filter((words) => words.length > 0);
  }

  /** Whether one of them stands in the name as whole words. */
  has(name: string): boolean {
    if (this.#phrases.length === 0) return false;
    const words = wordsOf(name);
    return this.#phrases.some((phrase) =>
      words.some((_, at) => phrase.every((word, index) => words[at + index] === word)),
    );
  }
}
