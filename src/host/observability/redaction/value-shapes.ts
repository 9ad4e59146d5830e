// Secrets in a text that are told by what they look like. Each search reads the text once, or looks back and ahead so far and no
// further, so its time is the text's length whatever is in it.
import { assignments } from "./assignments.ts";
import { cardNumbers } from "./card-numbers.ts";
import { KEY_PREFIXES } from "./key-prefixes.ts";
import type { SecretMatch } from "./shape.ts";

const PEM_BEGIN = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g;
const PEM_END = /-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g;

/** One that is cut off ends with the text. */
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

/** What is longer is no header. */
const MAX_HEADER_UNITS = 4_096;
/** What base64 makes of `{"`. */
const OBJECT_BEGINS = "eyJ";

function isJoseHeader(part: string): boolean {
  if (part.length > MAX_HEADER_UNITS) return false;
  try {
    const header: unknown = JSON.parse(Buffer.from(part, "base64url").toString());
    return typeof header === "object" && header !== null && ("alg" in header || "enc" in header || "typ" in header);
  } catch {
    return false;
  }
}

/** Three parts (RFC 7515), five of an encrypted one (RFC 7516), or the two that are left of one that was cut off. */
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
/** What is said of bearer tokens, and is none. */
const SPOKEN =
  /^(?:tokens?|auth|authentication|authorization|schemes?|formats?|headers?|credentials?|only|required|bonds?)[.:]?$/i;

/** One that is written in a sentence has a digit, or letters as no word has them. */
const looksMade = (text: string): boolean => /\d|[a-z][A-Z]/.test(text.slice(0, 200)) || text.length >= 24;

/** `user:password`, as RFC 7617 has it. */
function isBasic(text: string): boolean {
  if (text.length < 4 || text.length > 4_096) return false;
  return /^[^\p{C}:]*:[^\p{C}]*$/u.test(Buffer.from(text, "base64").toString("latin1"));
}

function* credentials(text: string): Iterable<SecretMatch> {
  for (const match of text.matchAll(SCHEME)) {
    const [whole, scheme = "", given = ""] = match;
    const end = match.index + whole.length;
    const isAll = /^[\r\n]?$/.test(text[match.index - 1] ?? "") && /^[\r\n]?$/.test(text[end] ?? "");
    const isSecret = scheme.toLowerCase() === "basic" ? isBasic(given) : isAll ? !SPOKEN.test(given) : looksMade(given);
    if (isSecret) yield { start: end - given.length, end, label: scheme.toLowerCase() };
  }
}

/** The password in `scheme://user:password@host`. An authority ends at the next slash, so none is read twice. */
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

const SEARCHES: readonly ((text: string, isSecret: (name: string) => boolean) => Iterable<SecretMatch>)[] = [
  privateKeys,
  webTokens,
  issuedKeys,
  credentials,
  userInfos,
  cardNumbers,
  assignments,
];

/** What has been replaced already stays as it is. */
const REPLACED = /^\[redacted(?::[^\]\s]{1,128})?\]$/;

/** Shorter texts hold none of these. */
const MIN_UNITS = 6;

/**
 * The text with `[redacted:LABEL]` in the place of each secret that shows itself.
 * @param isSecret whether a name that the text gives a value is a secret's
 */
export function redactShapes(text: string, isSecret: (name: string) => boolean): string {
  if (text.length < MIN_UNITS) return text;
  const shapes = SEARCHES.flatMap((search) => [...search(text, isSecret)]);
  if (shapes.length === 0) return text;
  shapes.sort((a, b) => a.start - b.start || b.end - a.end);
  let written = "";
  let from = 0;
  for (const { start, end, label } of shapes) {
    // What begins within another has gone with it; what goes on behind it goes too.
    if (end <= from || REPLACED.test(text.slice(start, end))) continue;
    if (start >= from) written += `${text.slice(from, start)}[redacted:${label}]`;
    from = end;
  }
  return written + text.slice(from);
}
