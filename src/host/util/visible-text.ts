// Escapes characters that a terminal or an editor would interpret or hide. Text from tools, files, arguments and the environment may
// contain escape sequences that move the cursor, bidirectional controls that reorder a line, and invisible tags that carry a message.

/**
 * Control characters except newline and tab, line separators, bidirectional controls and marks, invisible operators, tags, and the
 * variation selectors of plane 14. The joiners U+200C and U+200D are kept because scripts and emoji need them.
 */
const INVISIBLE =
  /[^\P{Cc}\n\t]|[\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

const toEscape = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
const escapeCharacter = (text: string): string => text.split("").map(toEscape).join("");

/**
 * Returns multi-line text with each such character as `\u` escapes, one per UTF-16 code unit. JSON text keeps its value, and a quoted
 * TypeScript string keeps its meaning, because both support these escapes.
 */
export const toVisibleText = (text: string): string =>
  text.replaceAll("\r\n", "\n").replace(INVISIBLE, escapeCharacter);

/** Returns the text escaped on one line: newlines and tabs become `\n` and `\t`. */
export const toVisibleLine = (text: string): string =>
  toVisibleText(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
