// Values that a text gives to a name of a secret: `password=…`, `"apiKey": "…"`, `Authorization: …`, `--token …`.
import type { SecretMatch } from "./shape.ts";

/** A name is looked for so far before its sign. */
const MAX_BACK_UNITS = 80;
/** The end of a name, with its closing quote (which may be escaped itself) and spaces. */
const NAME_BEFORE = /([\p{L}\p{N}_.$-]+)(\\{0,8}["'`])?[ \t]{0,2}$/u;
/** No quote, and a word up to what ends one. */
const BARE = /[^\s&;,"'`<>(){}[\]\\|]+/y;
const OPENING = /[ \t]{0,4}(\\{0,8}["'`])/y;
const SPACES = /[ \t]{0,4}/y;
/** A header's: the line is the value. */
const LINE = /[^\r\n"']+/y;
const AUTH_SCHEME = /(?:bearer|basic|token|digest|negotiate|apikey)[ \t]+/iy;
/** Said of a secret in configuration, in code and in schemas, and none itself. */
const NOTHING =
  /^(?:true|false|null|none|undefined|nil|string|number|boolean|str|int|any|object|unknown|required|optional|\d{1,2})[;,]?$/i;
const MAX_INDENT_UNITS = 40;
const LINE_BEGINS = /(?:^|\n|["'])[ \t>{,*-]*$/;
const LINE_BEGAN = /[\n"'][ \t>{,*-]*$/;
const REPLACED = /\[redacted(?::[^\]\s]{1,128})?\]/y;

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** Where a quoted text ends; one that is cut off ends with the text. */
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

/** In a sentence a colon says little: where a line is a name and one word, or a header's, it gives a value. */
function lineValueAt(text: string, nameStart: number, name: string, at: number): Span | undefined {
  const before = text.slice(Math.max(0, nameStart - MAX_INDENT_UNITS), nameStart);
  if (!(nameStart <= MAX_INDENT_UNITS ? LINE_BEGINS : LINE_BEGAN).test(before)) return undefined;
  const start = at + (matchAt(SPACES, text, at)?.[0].length ?? 0);
  const line = matchAt(LINE, text, start)?.[0].trimEnd() ?? "";
  const isHeader = /^(?:proxy-)?authorization$|^(?:set-)?cookie$|^x-/i.test(name);
  if (line === "" || line.startsWith("[redacted") || (!isHeader && /\s/.test(line))) return undefined;
  return { start, end: start + line.replace(/[,;]$/, "").length };
}

/** Whether a name is a secret's. */
type IsSecret = (name: string) => boolean;

function valueBehind(text: string, sign: number, isSecret: IsSecret): Span | undefined {
  const before = text.slice(Math.max(0, sign - MAX_BACK_UNITS), sign);
  const found = NAME_BEFORE.exec(before);
  const [whole = "", name = "", quote] = found ?? [];
  if (found === null || !isSecret(name)) return undefined;
  // `token := "…"` gives a value as well.
  const isSet = text[sign] === "=" || text[sign + 1] === "=";
  const at = sign + (text[sign] === ":" && isSet ? 2 : 1);
  // `token == other` compares, `token => …` is a function.
  if (isSet && /[=>]/.test(text[at] ?? "")) return undefined;
  const quoted = quotedAt(text, at);
  if (quoted !== undefined) return quoted;
  if (isSet || quote !== undefined) return bareAt(text, at);
  return lineValueAt(text, sign - whole.length, name, at);
}

/** `--password hunter2`: what stands behind an option. */
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
    const value = valueBehind(text, sign.index, isSecret);
    if (value === undefined || value.end === value.start) continue;
    if (!NOTHING.test(text.slice(value.start, value.end))) yield { ...value, label: "value" };
    signs.lastIndex = Math.max(signs.lastIndex, value.end);
  }
  yield* options(text, isSecret);
}
