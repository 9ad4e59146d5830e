// Measures and wraps text for one of the PDF's fonts.
import type { PDFFont } from "pdf-lib";

/** A font with its character widths remembered. */
export class Face {
  readonly font: PDFFont;
  readonly #widths = new Map<string, number>();

  constructor(font: PDFFont) {
    this.font = font;
  }

  /**
   * Width in points. Character by character, because pdf-lib's own measure allows for kerning, but draws without it: a
   * right-aligned column would be ragged.
   */
  widthOf(text: string, size: number): number {
    let width = 0;
    for (const character of text) width += this.#characterWidth(character);
    return (width * size) / 1000;
  }

  /** Lines no wider than `width`: broken at spaces, and within a word only where it alone is too wide. */
  wrap(text: string, size: number, width: number): string[] {
    return text.split("\n").flatMap((paragraph) => this.#wrapParagraph(paragraph, size, width));
  }

  #wrapParagraph(paragraph: string, size: number, width: number): string[] {
    const lines: string[] = [];
    let line = "";
    for (const word of paragraph.split(/ +/)) {
      const longer = line === "" ? word : `${line} ${word}`;
      if (this.widthOf(longer, size) <= width) {
        line = longer;
        continue;
      }
      if (line !== "") lines.push(line);
      const pieces = this.#breakWord(word, size, width);
      line = pieces.pop() ?? "";
      lines.push(...pieces);
    }
    return [...lines, line];
  }

  #breakWord(word: string, size: number, width: number): string[] {
    const pieces: string[] = [];
    let piece = "";
    for (const character of word) {
      if (piece !== "" && this.widthOf(piece + character, size) > width) {
        pieces.push(piece);
        piece = "";
      }
      piece += character;
    }
    return [...pieces, piece];
  }

  #characterWidth(character: string): number {
    const known = this.#widths.get(character);
    if (known !== undefined) return known;
    const width = this.font.widthOfTextAtSize(character, 1000);
    this.#widths.set(character, width);
    return width;
  }
}
