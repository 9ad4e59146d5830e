// Decodes one escape sequence: percent encoding, backslashes or HTML entities, also nested ones. It need not be exact for any of these
// formats, but two texts with the same meaning must have the same result.

/** A decoded unit and the end of its source. Reused from step to step. */
export interface Step {
  unit: number;
  end: number;
}

/** A longer run of escapes is split. */
const MAX_RUN = 16;
const MAX_ENTITY = 8;
const PERCENT = 0x25;
const AMPERSAND = 0x26;
const BACKSLASH = 0x5c;
const PLUS = 0x2b;
const SPACE = 0x20;
const SEMICOLON = 0x3b;
const HASH = 0x23;

const HEX = new Int8Array(256).fill(-1);
for (let digit = 0; digit < 16; digit += 1) {
  for (const sign of [digit.toString(16), digit.toString(16).toUpperCase()]) HEX[sign.charCodeAt(0)] = digit;
}
const hexAt = (text: Uint8Array, at: number): number => HEX[text[at] ?? 0] ?? -1;

const SHORT_ESCAPES = new Map([..."nrtbf"].map((sign, index) => [sign.charCodeAt(0), "\n\r\t\b\f".charCodeAt(index)]));
const ENTITIES = new Map([
  ["amp", "&"],
  ["lt", "<"],
  ["gt", ">"],
  ["quot", '"'],
  ["apos", "'"],
]);

/** Units that may start an escape sequence. */
export const ESCAPES: ReadonlySet<number> = new Set([PERCENT, BACKSLASH, AMPERSAND]);

/**
 * Decodes the unit at `at`. Returns false if the text ends before it is complete.
 * @param isWhole whether no more text will follow
 */
export function unescapeAt(text: Uint8Array, at: number, isWhole: boolean, step: Step): boolean {
  const byte = text[at] ?? 0;
  step.unit = byte;
  step.end = at + 1;
  const isRead = readEscape(byte, text, at, isWhole, step);
  // Forms encode a space as a plus, so the two cannot be distinguished.
  if (step.unit === PLUS) step.unit = SPACE;
  return isRead;
}

function readEscape(byte: number, text: Uint8Array, at: number, isWhole: boolean, step: Step): boolean {
  if (byte === PERCENT) return percent(text, at, isWhole, step);
  if (byte === BACKSLASH) return backslash(text, at, isWhole, step);
  return byte === AMPERSAND ? entity(text, at, isWhole, step) : true;
}

function percent(text: Uint8Array, at: number, isWhole: boolean, step: Step): boolean {
  let digits = at + 1;
  // Encoded percent signs, followed by the digits of the inner sequence.
  while (digits - at < MAX_RUN && text[digits] === 0x32 && text[digits + 1] === 0x35 && mayBeHex(text, digits + 2))
    digits += 2;
  if (digits + 2 > text.length) return isWhole;
  const [high, low] = [hexAt(text, digits), hexAt(text, digits + 1)];
  if (high < 0 || low < 0) return true;
  step.unit = high * 16 + low;
  step.end = digits + 2;
  return true;
}

/** Returns whether two hexadecimal digits follow, as far as there is text. */
function mayBeHex(text: Uint8Array, at: number): boolean {
  return (at >= text.length || hexAt(text, at) >= 0) && (at + 1 >= text.length || hexAt(text, at + 1) >= 0);
}

function backslash(text: Uint8Array, at: number, isWhole: boolean, step: Step): boolean {
  let after = at + 1;
  while (after - at < MAX_RUN && text[after] === BACKSLASH) after += 1;
  if (after >= text.length) {
    step.end = after;
    return isWhole;
  }
  const sign = text[after] ?? 0;
  const digits = sign === 0x75 ? 4 : sign === 0x78 ? 2 : 0;
  const short = SHORT_ESCAPES.get(sign);
  step.end = after;
  if (digits > 0) return hexEscape(text, after + 1, digits, isWhole, step);
  if (short !== undefined) {
    step.unit = short;
    step.end = after + 1;
  } else if (sign === 0x22 || sign === 0x27 || sign === 0x2f) {
    step.unit = sign;
    step.end = after + 1;
  }
  return true;
}

function hexEscape(text: Uint8Array, from: number, digits: number, isWhole: boolean, step: Step): boolean {
  let code = 0;
  for (let at = from; at < from + digits; at += 1) {
    if (at >= text.length) return isWhole;
    const digit = hexAt(text, at);
    if (digit < 0) return true;
    code = code * 16 + digit;
  }
  step.unit = code;
  step.end = from + digits;
  return true;
}

function entity(text: Uint8Array, at: number, isWhole: boolean, step: Step): boolean {
  let end = at + 1;
  while (end < text.length && end - at <= MAX_ENTITY && text[end] !== SEMICOLON && text[end] !== AMPERSAND) end += 1;
  if (end >= text.length) return isWhole;
  if (text[end] !== SEMICOLON) return true;
  const name = Buffer.from(text.buffer, text.byteOffset + at + 1, end - at - 1).toString("latin1");
  const code = text[at + 1] === HASH ? entityCode(name) : ENTITIES.get(name)?.charCodeAt(0);
  if (code === undefined) return true;
  step.unit = code;
  step.end = end + 1;
  return true;
}

function entityCode(name: string): number | undefined {
  const code = /^#x/i.test(name) ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
  return Number.isInteger(code) && code >= 0 && code < 0x10000 ? code : undefined;
}
