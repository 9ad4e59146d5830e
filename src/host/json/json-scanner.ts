// Scans JSON as bytes: classifies bytes outside strings, and finds the ends of numbers and strings.
export const TOKEN = 0;
export const SPACE = 1;
export const STRING = 2;
export const OPEN = 3;
export const CLOSE = 4;
export const COMMA = 5;
export const COLON = 6;

/** TOKEN is a byte of a number or a word, or an invalid byte. */
export const KINDS: Uint8Array = new Uint8Array(256);
for (const [kind, characters] of [
  [SPACE, " \t\n\r"],
  [STRING, '"'],
  [OPEN, "[{"],
  [CLOSE, "]}"],
  [COMMA, ","],
  [COLON, ":"],
] as const) {
  for (const character of characters) KINDS[character.charCodeAt(0)] = kind;
}

export const QUOTE = 34;
export const OPEN_BRACKET = 91;
export const CLOSE_BRACKET = 93;
export const OPEN_BRACE = 123;
const UNDERSCORE = 95;
const BACKSLASH = 92;
const LOWER_U = 117;

/** Returns the first byte from `from` to `end` that does not belong to a number or word. */
export function skipToken(bytes: Buffer, from: number, end: number): number {
  let at = from;
  while (at < end && KINDS[bytes[at] ?? 0] === TOKEN) at += 1;
  return at;
}

/** Returns the position of the closing quote, or a position from `end` on at which no escape is split. */
export function skipString(bytes: Buffer, from: number, end: number): number {
  let at = from;
  while (at < end) {
    const byte = bytes[at];
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH) at += bytes[at + 1] === LOWER_U ? 6 : 2;
    else at += 1;
  }
  return at;
}

/** Returns the string that starts at `start`, with its quotes. */
export function stringTextAt(bytes: Buffer, start: number): string {
  const end = skipString(bytes, start + 1, bytes.length);
  return bytes.toString("utf8", start, end + 1);
}

/** Returns whether a byte continues a multi-byte character. */
export const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80;

/** Returns whether a string that starts with this byte may be `__proto__`, with or without escapes. */
export const startsSpecially = (byte: number | undefined): boolean => byte === UNDERSCORE || byte === BACKSLASH;
