// Finds secrets in a text by their form. Each search reads the text once, or looks back and ahead by a limited amount, so that its time is
// linear in the text's length for any content.
import { assignments } from "./assignments.ts";
import { cardNumbers } from "./card-numbers.ts";
import { KEY_PREFIXES } from "./key-prefixes.ts";
import type { SecretMatch } from "./secret-match.ts";

const PEM_BEGIN = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g;
const PEM_END = /-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g;

/** Finds PEM private keys. A truncated key extends to the end of the text. */
function* privateKeys(text: string): Iterable<SecretMatch> {
  PEM_BEGIN.lastIndex = 0;
  for (let begin = PEM_BEGIN.exec(text); begin !== null; begin = PEM_BEGIN.exec(text)) {
    PEM_END.lastIndex = PEM_BEGIN.lastIndex;
    const isEnded = PEM_END.exec(text) !== null;
    const end = isEnded ? PEM_END.lastIndex : text.length;
    yield { start: begin.index, end, label: "private-key" };
    PEM_BEGIN.lastIndex = end;
  }
}

/** Longest header of a web token, in UTF-16 code units. */
const MAX_HEADER_LENGTH = 4_096;
/** The base64 form of `{"`. */
const OBJECT_BEGINS = "eyJ";

function isJoseHeader(part: string): boolean {
  if (part.length > MAX_HEADER_LENGTH) return false;
  try {
    const header: unknown = JSON.parse(Buffer.from(part, "base64url").toString());
    return typeof header === "object" && header !== null && ("alg" in header || "enc" in header || "typ" in header);
  } catch {
    return false;
  }
}

/** Finds web tokens: three parts (RFC 7515), five if encrypted (RFC 7516), or two if truncated. */
function* webTokens(text: string): Iterable<SecretMatch> {
  for (const { 0: run, index } of text.matchAll(/[A-Za-z0-9_.-]+/g)) {
    if (!run.includes(OBJECT_BEGINS)) continue;
    const parts = run.split(".");
    let start = index;
    for (let at = 0; at + 1 < parts.length; at += 1) {
      const part = parts[at] ?? "";
      const offset = part.indexOf(OBJECT_BEGINS);
      let end = start + part.length;
      if (offset >= 0 && isJoseHeader(part.slice(offset))) {
        const count = (parts[at + 1] ?? "").startsWith(OBJECT_BEGINS) ? 3 : 5;
        const others = parts.slice(at + 1, at + count);
        for (const other of others) end += other.length + 1;
        yield { start: start + offset, end, label: "jwt" };
        at += others.length;
      }
      start = end + 1;
    }
  }
}

const SCHEME = /(?<![A-Za-z0-9])(bearer|basic)[ \t]{1,8}([A-Za-z0-9._~+/=:-]+)/gi;
/** Words that follow "bearer" in prose. */
const PROSE =
  /^(?:tokens?|auth|authentication|authorization|schemes?|formats?|headers?|credentials?|only|required|bonds?)[.:]?$/i;

/** Returns whether a word is a credential and not prose: it has a digit or mixed case, or is long. */
const looksGenerated = (text: string): boolean => /\d|[a-z][A-Z]/.test(text.slice(0, 200)) || text.length >= 24;

/** Returns whether the text decodes to `user:password` (RFC 7617). */
function isBasic(text: string): boolean {
  if (text.length < 4 || text.length > 4_096) return false;
  return /^[^\p{C}:]*:[^\p{C}]*$/u.test(Buffer.from(text, "base64").toString("latin1"));
}

function* credentials(text: string): Iterable<SecretMatch> {
  for (const match of text.matchAll(SCHEME)) {
    const [whole, scheme = "", given = ""] = match;
    const end = match.index + whole.length;
    const isAll = /^[\r\n]?$/.test(text[match.index - 1] ?? "") && /^[\r\n]?$/.test(text[end] ?? "");
    const isSecret =
      scheme.toLowerCase() === "basic" ? isBasic(given) : isAll ? !PROSE.test(given) : looksGenerated(given);
    if (isSecret) yield { start: end - given.length, end, label: scheme.toLowerCase() };
  }
}

/** Finds the password in `scheme://user:password@host`. An authority ends at the next slash, so no part is read twice. */
function* userInfos(text: string): Iterable<SecretMatch> {
  for (let at = text.indexOf("://"); at >= 0; at = text.indexOf("://", at + 3)) {
    const start = at + 3;
    const [authority = ""] = /^[^\s/?#"'<>`\\]*/.exec(text.slice(start, start + 2_048)) ?? [];
    const colon = authority.indexOf(":");
    const sign = authority.lastIndexOf("@");
    if (colon >= 0 && sign > colon + 1) yield { start: start + colon + 1, end: start + sign, label: "password" };
  }
}

function* issuedKeys(text: string): Iterable<SecretMatch> {
  for (const { 0: key, index } of text.matchAll(KEY_PREFIXES))
    yield { start: index, end: index + key.length, label: "api-key" };
}

interface Search {
  /** Returns false for a text that the search finds nothing in. Most texts are short and plain, and a search costs half a microsecond. */
  readonly mayFind: (text: string) => boolean;
  readonly find: (text: string, isSecret: (name: string) => boolean) => Iterable<SecretMatch>;
}

/** Twelve digits, which the shortest card number has, with at most one character between two of them. */
const CARD_DIGITS = /(?:\d\D?){11}\d/;
const ASSIGNMENT = /[=:]|-[A-Za-z]/;

const SEARCHES: readonly Search[] = [
  { find: privateKeys, mayFind: (text) => text.includes("-----BEGIN ") },
  { find: webTokens, mayFind: (text) => text.includes(OBJECT_BEGINS) },
  { find: issuedKeys, mayFind: (text) => text.search(KEY_PREFIXES) >= 0 },
  { find: credentials, mayFind: (text) => text.search(SCHEME) >= 0 },
  { find: userInfos, mayFind: (text) => text.includes("://") },
  { find: cardNumbers, mayFind: (text) => CARD_DIGITS.test(text) },
  { find: assignments, mayFind: (text) => ASSIGNMENT.test(text) },
];

/** A replacement of an earlier redaction, which is kept. */
const REPLACED = /^\[redacted(?::[^\]\s]{1,128})?\]$/;

/** Shorter texts contain no secret. */
const MIN_LENGTH = 6;

/**
 * Replaces each detected secret by `[redacted:LABEL]`.
 * @param isSecret returns whether a name denotes a secret
 */
export function redactMatches(text: string, isSecret: (name: string) => boolean): string {
  if (text.length < MIN_LENGTH) return text;
  const matches = SEARCHES.flatMap(({ find, mayFind }) => (mayFind(text) ? [...find(text, isSecret)] : []));
  if (matches.length === 0) return text;
  matches.sort((a, b) => a.start - b.start || b.end - a.end);
  let written = "";
  let from = 0;
  for (const { start, end, label } of matches) {
    // Overlapping matches are merged into the first one.
    if (end <= from || REPLACED.test(text.slice(start, end))) continue;
    if (start >= from) written += `${text.slice(from, start)}[redacted:${label}]`;
    from = end;
  }
  return written + text.slice(from);
}
