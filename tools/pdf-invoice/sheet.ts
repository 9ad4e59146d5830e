// The pages of one document, with a cursor that goes down and starts a new page where there is no room. Knows nothing of invoices.
import { type Color, PageSizes, type PDFDocument, type PDFPage, rgb, StandardFonts } from "pdf-lib";
import { Face } from "./text-layout.ts";

export const MARGIN = 48;
/** Kept free at the foot of each page for the footer. */
const FOOTER_SPACE = 42;
/** Where the text of every page but the first begins, below its running head. */
const RUNNING_HEAD_SPACE = 34;

export interface Palette {
  readonly accent: Color;
  /** Legible on the accent colour. */
  readonly onAccent: Color;
  /** The accent colour, where it is legible on white; else the ink. */
  readonly accentText: Color;
  readonly ink: Color;
  readonly muted: Color;
  readonly hairline: Color;
}

export interface TextStyle {
  readonly size?: number;
  readonly bold?: boolean;
  readonly color?: Color;
  /** Which end of the text `x` is. */
  readonly align?: "left" | "right";
}

export const LINE_HEIGHT = 1.35;

export class Sheet {
  readonly #pdf: PDFDocument;
  readonly #size: readonly [number, number];
  readonly #onNewPage: (sheet: Sheet) => void;
  readonly regular: Face;
  readonly bold: Face;
  readonly palette: Palette;
  #page: PDFPage;
  /** Height above the bottom of the page of the next element. */
  y: number;

  private constructor(
    pdf: PDFDocument,
    size: readonly [number, number],
    faces: { readonly regular: Face; readonly bold: Face },
    palette: Palette,
    onNewPage: (sheet: Sheet) => void,
  ) {
    this.#pdf = pdf;
    this.#size = size;
    this.#onNewPage = onNewPage;
    this.regular = faces.regular;
    this.bold = faces.bold;
    this.palette = palette;
    this.#page = pdf.addPage([...size]);
    this.y = size[1] - MARGIN;
  }

  static async create(
    pdf: PDFDocument,
    options: { readonly pageSize: "A4" | "Letter"; readonly accentColor: string },
    onNewPage: (sheet: Sheet) => void,
  ): Promise<Sheet> {
    const regular = new Face(await pdf.embedFont(StandardFonts.Helvetica));
    const bold = new Face(await pdf.embedFont(StandardFonts.HelveticaBold));
    const size = options.pageSize === "A4" ? PageSizes.A4 : PageSizes.Letter;
    return new Sheet(pdf, size, { regular, bold }, createPalette(options.accentColor), onNewPage);
  }

  /** The page that is being drawn on. */
  get page(): PDFPage {
    return this.#page;
  }

  get left(): number {
    return MARGIN;
  }

  get right(): number {
    return this.#size[0] - MARGIN;
  }

  get top(): number {
    return this.#size[1];
  }

  get width(): number {
    return this.right - this.left;
  }

  /** What fits on a page that is not the first. */
  get pageHeight(): number {
    return this.top - 2 * MARGIN - RUNNING_HEAD_SPACE - FOOTER_SPACE;
  }

  get pages(): readonly PDFPage[] {
    return this.#pdf.getPages();
  }

  /** Starts a new page unless `height` points are free on this one. */
  reserve(height: number): boolean {
    if (this.y - height >= MARGIN + FOOTER_SPACE) return false;
    this.#page = this.#pdf.addPage([...this.#size]);
    this.y = this.#size[1] - MARGIN - RUNNING_HEAD_SPACE;
    this.#onNewPage(this);
    return true;
  }

  face(style: TextStyle): Face {
    return style.bold === true ? this.bold : this.regular;
  }

  /** @param y of the text's base line */
  text(text: string, x: number, y: number, style: TextStyle = {}, page: PDFPage = this.#page): void {
    if (text === "") return;
    const { size = 9, color = this.palette.ink, align = "left" } = style;
    const face = this.face(style);
    const start = align === "left" ? x : x - face.widthOf(text, size);
    page.drawText(text, { x: start, y, size, font: face.font, color });
  }

  rule(y: number, from: number, to: number, page: PDFPage = this.#page, thickness = 0.6): void {
    page.drawLine({ start: { x: from, y }, end: { x: to, y }, thickness, color: this.palette.hairline });
  }

  box(x: number, y: number, width: number, height: number): void {
    this.#page.drawRectangle({ x, y, width, height, color: this.palette.accent });
  }

  /** Draws wrapped lines downwards from `y`, the top of the first, and returns where they end. */
  paragraph(text: string, x: number, y: number, width: number, style: TextStyle = {}): number {
    const size = style.size ?? 9;
    let end = y;
    for (const line of this.face(style).wrap(text, size, width)) {
      this.text(line, x, end - size, style);
      end -= size * LINE_HEIGHT;
    }
    return end;
  }
}

function createPalette(accentColor: string): Palette {
  const channel = (start: number) => Number.parseInt(accentColor.slice(start, start + 2), 16) / 255;
  const [red, green, blue] = [channel(1), channel(3), channel(5)];
  // ITU-R BT.601 luma: how bright the colour looks.
  const bright = 0.299 * red + 0.587 * green + 0.114 * blue > 0.6;
  const ink = rgb(0.12, 0.13, 0.15);
  return {
    accent: rgb(red, green, blue),
    onAccent: bright ? ink : rgb(1, 1, 1),
    accentText: bright ? ink : rgb(red, green, blue),
    ink,
    muted: rgb(0.42, 0.44, 0.48),
    hairline: rgb(0.82, 0.83, 0.85),
  };
}
