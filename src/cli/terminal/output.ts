// The only place where the command line writes to stdout and stderr. Text is escaped here, so that nothing that a tool, a file or an
// argument contains can control the terminal; styles are added after that.
import { once } from "node:events";
import type { Writable } from "node:stream";
import { styleText } from "node:util";
import { toVisibleText } from "../../host/util/visible-text.ts";

type Format = Parameters<typeof styleText>[0];

/** A stream of the process. Tests pass other ones. */
export type OutputStream = Writable & { readonly isTTY?: boolean | undefined };

/** Text with a style. The style is written only to a terminal, and only if NO_COLOR and the like allow it. */
export interface StyledText {
  readonly format: Format;
  readonly text: string;
}

/** What is printed: strings and styled text, in order. */
export type Piece = string | StyledText;

export const styled = (format: Format, text: string): StyledText => ({ format, text });

/** One output stream of a command. Prints nothing more after the stream has failed. */
export class CliOutput {
  readonly #stream: OutputStream;
  readonly #onError: (error: NodeJS.ErrnoException) => void;
  #isFailed = false;

  /** @param onFailure is called once, with the error of the first write that failed */
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

  /** Writes the pieces as they are, escaped; adds no newline. */
  print(...pieces: readonly Piece[]): void {
    if (this.#isFailed) return;
    this.#stream.write(pieces.map((piece) => this.#render(piece)).join(""));
  }

  /** Resolves when the reader has kept up, or the stream has failed or closed. */
  async drained(): Promise<void> {
    if (this.#isFailed || !this.#stream.writableNeedDrain) return;
    const done = new AbortController();
    const { signal } = done;
    const events = ["drain", "close"].map((name) => once(this.#stream, name, { signal }));
    // `once` rejects with the stream's error: print() and the failure listener handle that.
    await Promise.race(events).catch(() => {});
    done.abort();
    await Promise.allSettled(events);
  }

  /**
   * Returns the stream itself, for a protocol that writes its own messages. From then on its errors are for the caller, and nothing is
   * printed any more.
   */
  takeStream(): OutputStream {
    this.#isFailed = true;
    // Without any listener an error would end the process.
    this.#stream.off("error", this.#onError).on("error", () => {});
    return this.#stream;
  }

  #render(piece: Piece): string {
    if (typeof piece === "string") return toVisibleText(piece);
    return styleText(piece.format, toVisibleText(piece.text), { stream: this.#stream });
  }
}
