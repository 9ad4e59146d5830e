// Writes to stdout and stderr, for all of the command line. Escapes text, so that the content of a tool, a file or an argument cannot
// control the terminal, and adds styles after that.
import { once } from "node:events";
import type { Writable } from "node:stream";
import { styleText } from "node:util";
import { toVisibleLine, toVisibleText } from "../../host/util/visible-text.ts";

type Format = Parameters<typeof styleText>[0];

/** An output stream of the process, or of a test. */
export type OutputStream = Writable & {
  readonly isTTY?: boolean | undefined;
  readonly rows?: number | undefined;
  readonly columns?: number | undefined;
};

/** Text with a style, which is applied only in a terminal and if NO_COLOR and similar variables allow it. */
export interface StyledText {
  readonly format: Format;
  readonly text: string;
}

/** A string or styled text to print. */
export type Piece = string | StyledText;

/** Moves to the upper left corner. */
const HOME = "\u001b[H";
const CLEAR_REST_OF_LINE = "\u001b[K";
const CLEAR_BELOW = "\u001b[J";
const DEFAULT_ROWS = 24;
const DEFAULT_COLUMNS = 80;

export const styled = (format: Format, text: string): StyledText => ({ format, text });

/** One output stream of a command. Prints nothing after the stream has failed. */
export class CliOutput {
  readonly #stream: OutputStream;
  readonly #onError: (error: NodeJS.ErrnoException) => void;
  #isFailed = false;

  /** @param onFailure called once, with the error of the first failed write */
  constructor(stream: OutputStream, onFailure: (error: NodeJS.ErrnoException) => void) {
    this.#stream = stream;
    this.#onError = (error) => {
      if (this.#isFailed) return;
      this.#isFailed = true;
      onFailure(error);
    };
    stream.on("error", this.#onError);
  }

  get isTerminal(): boolean {
    return this.#stream.isTTY === true;
  }

  /** Writes the pieces, escaped. Adds no newline. */
  print(...pieces: readonly Piece[]): void {
    if (this.#isFailed) return;
    this.#stream.write(pieces.map((piece) => this.#render(piece)).join(""));
  }

  /**
   * Replaces what the terminal shows by the first lines of a text, as many as it has rows, each up to the terminal's width: a line that wraps
   * would push the first ones out of view. Nothing is cleared before it is written, so that the screen does not flicker.
   */
  repaint(text: string): void {
    if (this.#isFailed) return;
    const columns = this.#stream.columns ?? DEFAULT_COLUMNS;
    const lines = toVisibleText(text)
      .split("\n")
      .slice(0, (this.#stream.rows ?? DEFAULT_ROWS) - 1)
      .map((line) => (line.length > columns ? `${line.slice(0, columns - 1)}…` : line));
    this.#stream.write(`${HOME}${lines.map((line) => `${line}${CLEAR_REST_OF_LINE}\n`).join("")}${CLEAR_BELOW}`);
  }

  /** Replaces the last line of a terminal, which must be a status or empty. The cursor stays at its beginning. */
  showStatus(text: string): void {
    if (this.#isFailed) return;
    // A line that wraps could not be replaced.
    const line = toVisibleLine(text).slice(0, (this.#stream.columns ?? DEFAULT_COLUMNS) - 1);
    this.#stream.write(`\r${line}${CLEAR_REST_OF_LINE}\r`);
  }

  /** Resolves when the stream's buffer has drained, or the stream has failed or closed. */
  async drained(): Promise<void> {
    if (this.#isFailed || !this.#stream.writableNeedDrain) return;
    const done = new AbortController();
    const { signal } = done;
    const events = ["drain", "close"].map((name) => once(this.#stream, name, { signal }));
    // `once` rejects with the stream's error, which print() and the failure listener handle.
    await Promise.race(events).catch(() => {});
    done.abort();
    await Promise.allSettled(events);
  }

  /** Resolves when everything has been written, or the stream has failed. */
  async flushed(): Promise<void> {
    if (this.#isFailed) return;
    await new Promise<void>((resolve) => {
      this.#stream.write("", () => resolve());
    });
  }

  /**
   * Returns the stream, for a protocol that writes its own messages. From then on the caller handles its errors, and print() does nothing.
   */
  takeStream(): OutputStream {
    this.#isFailed = true;
    // An error without a listener would end the process.
    this.#stream.off("error", this.#onError).on("error", () => {});
    return this.#stream;
  }

  #render(piece: Piece): string {
    if (typeof piece === "string") return toVisibleText(piece);
    return styleText(piece.format, toVisibleText(piece.text), { stream: this.#stream });
  }
}
