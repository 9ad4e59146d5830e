// Characters that a person does not see and a model reads. A whole text can be written in some of them (tags, variation selectors), and
// others change the order in which a text is shown.

/**
 * Control characters but for line ends and tabs, all that Unicode says is to be ignored where it cannot be shown (zero-width characters,
 * tags, variation selectors, Hangul fillers, marks of direction), and interlinear annotations. Not the joiner and the variation selector
 * of an emoji: one of each, where it stands between what makes one.
 */
const INVISIBLE =
  /[^\P{Cc}\n\t]|(?!(?<=\p{Extended_Pictographic})\uFE0F|(?<=[0-9#*])\uFE0F\u20E3|(?<=\p{Extended_Pictographic}|\p{Emoji_Modifier}|\uFE0F)\u200D\p{Extended_Pictographic})[\p{Default_Ignorable_Code_Point}\uFFF9-\uFFFB]/u;
const ALL_INVISIBLE = new RegExp(INVISIBLE, "gu");

/** Removes what is invisible: for words, which are read and not compared. */
export const toVisible = (text: string): string => text.toWellFormed().replaceAll(ALL_INVISIBLE, "");

/** Names the first invisible character of a text, such as `U+200B`; undefined where there is none. Half a surrogate pair is one. */
export function invisibleIn(text: string): string | undefined {
  const [found] = INVISIBLE.exec(text) ?? (text.isWellFormed() ? [] : [/\p{Cs}/u.exec(text)?.[0] ?? ""]);
  return found === undefined
    ? undefined
    : `U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}
