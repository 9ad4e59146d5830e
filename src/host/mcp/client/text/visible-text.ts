// Finds and removes characters that a user does not see but a model reads. Some of them can encode a whole hidden text (tags, variation
// selectors), and others change the order in which a text is displayed.

/**
 * Matches control characters except for line feeds and tabs, the characters that Unicode marks as ignorable by default (zero-width
 * characters, tags, variation selectors, Hangul fillers, direction marks), and interlinear annotations. It does not match a single joiner or
 * variation selector between the parts of an emoji.
 */
const INVISIBLE =
  /[^\P{Cc}\n\t]|(?!(?<=\p{Extended_Pictographic})\uFE0F|(?<=[0-9#*])\uFE0F\u20E3|(?<=\p{Extended_Pictographic}|\p{Emoji_Modifier}|\uFE0F)\u200D\p{Extended_Pictographic})[\p{Default_Ignorable_Code_Point}\uFFF9-\uFFFB]/u;
const ALL_INVISIBLE = new RegExp(INVISIBLE, "gu");

/** Removes invisible characters. For descriptive texts only, which are read and never compared. */
export const toVisible = (text: string): string => text.toWellFormed().replaceAll(ALL_INVISIBLE, "");

/** Returns the name of the first invisible character in a text, such as `U+200B`; undefined if there is none. A lone surrogate counts. */
export function invisibleIn(text: string): string | undefined {
  const [found] = INVISIBLE.exec(text) ?? (text.isWellFormed() ? [] : [/\p{Cs}/u.exec(text)?.[0] ?? ""]);
  return found === undefined
    ? undefined
    : `U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}
