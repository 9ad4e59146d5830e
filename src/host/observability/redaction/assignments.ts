// Finds values that a text assigns to the name of a secret: `password=…`, `"apiKey": "…"`, `Authorization: …`, `--token …`.
import type { SecretMatch } from "./secret-match.ts";

/** Longest distance, in UTF-16 code units, at which a name is searched before its operator. */
const MAX_LOOKBEHIND_LENGTH = 80;
/** The end of a name, with its closing quote (which may be escaped) and spaces. */
const NAME_BEFORE = /([\p{L}\p{N}_.$-]+)(\\{0,8}["'`])?[ \t]{0,2}$/u;
/** An unquoted word. */
const BARE = /[^\s&;,"'`<>(){}[\]\\|]+/y;
const OPENING = /[ \t]{0,4}(\\{0,8}["'`])/y;
const SPACES = /[ \t]{0,4}/y;
/** The value of a header, which is the rest of the line. */
const LINE = /[^\r\n"']+/y;
const AUTH_SCHEME = /(?:bearer|basic|token|digest|negotiate|apikey)[ \t]+/iy;
/** Values that occur in configuration, code and schemas, and are not secrets. */
const NON_SECRET_VALUE =
  /^(?:true|false|null|none|undefined|nil|string|number|boolean|str|int|any|object|unknown|required|optional|\d{1,2})[;,]?$/i;
const MAX_INDENT_LENGTH = 40;
const LINE_START = /(?:^|\n|["'])[ \t>{,*-]*$/;
const LINE_START_WITHIN = /[\n"'][ \t>{,*-]*$/;
const REPLACED = /\[redacted(?::[^\]\s]{1,128})?\]/y;

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** Returns the index where a quoted text ends. A truncated text ends at the end of the whole text. */
function closing(text: string, from: number, quote: string): number {
  if (quote.length > 1) {
    const end = text.indexOf(quote, from);
    return end < 0 ? text.length : end;
  }
  for (let at = from; at < text.length; at += 1) {
    const sign = text[at];
    if (sign === quote) return at;
    if (sign === "\\") at += 1;
  }
  return text.length;
}

interface Span {
  readonly start: number;
  readonly end: number;
}

function quotedAt(text: string, at: number): Span | undefined {
  const opening = matchAt(OPENING, text, at);
  if (opening === null) return undefined;
  const start = at + opening[0].length;
  return { start, end: closing(text, start, opening[1] ?? "") };
}

function bareAt(text: string, at: number): Span | undefined {
  const start = at + (matchAt(SPACES, text, at)?.[0].length ?? 0);
  const scheme = matchAt(AUTH_SCHEME, text, start)?.[0].length ?? 0;
  const replaced = matchAt(REPLACED, text, start + scheme);
  if (replaced !== null) return undefined;
  const word = matchAt(BARE, text, start + scheme);
  return word === null ? undefined : { start, end: start + scheme + word[0].length };
}

/** Returns the value after a colon. Prose contains colons too, so the line must be a name with one word, or a header. */
function lineValueAt(text: string, nameStart: number, name: string, at: number): Span | undefined {
  const before = text.slice(Math.max(0, nameStart - MAX_INDENT_LENGTH), nameStart);
  if (!(nameStart <= MAX_INDENT_LENGTH ? LINE_START : LINE_START_WITHIN).test(before)) return undefined;
  const start = at + (matchAt(SPACES, text, at)?.[0].length ?? 0);
  const line = matchAt(LINE, text, start)?.[0].trimEnd() ?? "";
  const isHeader = /^(?:proxy-)?authorization$|^(?:set-)?cookie$|^x-/i.test(name);
  if (line === "" || line.startsWith("[redacted") || (!isHeader && /\s/.test(line))) return undefined;
  return { start, end: start + line.replace(/[,;]$/, "").length };
}

/** Returns whether a name denotes a secret. */
type IsSecret = (name: string) => boolean;

function valueAfter(text: string, sign: number, isSecret: IsSecret): Span | undefined {
  const before = text.slice(Math.max(0, sign - MAX_LOOKBEHIND_LENGTH), sign);
  const found = NAME_BEFORE.exec(before);
  const [whole = "", name = "", quote] = found ?? [];
  if (found === null || !isSecret(name)) return undefined;
  // `token := "…"` is an assignment as well.
  const isSet = text[sign] === "=" || text[sign + 1] === "=";
  const at = sign + (text[sign] === ":" && isSet ? 2 : 1);
  // `token == other` is a comparison, and `token => …` a function.
  if (isSet && /[=>]/.test(text[at] ?? "")) return undefined;
  const quoted = quotedAt(text, at);
  if (quoted !== undefined) return quoted;
  if (isSet || quote !== undefined) return bareAt(text, at);
  return lineValueAt(text, sign - whole.length, name, at);
}

/** A command line option with a value: `--password hunter2`. */
const OPTION = /(?<![^\s"'])--?([A-Za-z][A-Za-z0-9_-]{1,40})[ \t]+(?![-[])("[^"]*"|'[^']*'|[^\s"']+)/g;

function* options(text: string, isSecret: IsSecret): Iterable<SecretMatch> {
  for (const match of text.matchAll(OPTION)) {
    const [whole, name = "", value = ""] = match;
    const end = match.index + whole.length;
    if (isSecret(name)) yield { start: end - value.length, end, label: "value" };
  }
}

export function* assignments(text: string, isSecret: IsSecret): Iterable<SecretMatch> {
  const signs = /[=:]/g;
  for (let sign = signs.exec(text); sign !== null; sign = signs.exec(text)) {
    const value = valueAfter(text, sign.index, isSecret);
    if (value === undefined || value.end === value.start) continue;
    if (!NON_SECRET_VALUE.test(text.slice(value.start, value.end))) yield { ...value, label: "value" };
    signs.lastIndex = Math.max(signs.lastIndex, value.end);
  }
  yield* options(text, isSecret);
}
