// Writes Python's output to the log line by line: stdout at level info, stderr at level warn.
import { MAX_LINE_LENGTH, writeLazily } from "./prelude.ts";

/** First line of the dump that the interpreter prints when it crashes. No other output follows it. */
const DUMP = "Stack (most recent call first):\n";

/** Splits a stream of bytes into lines. */
class Lines {
  readonly #level: "info" | "warn";
  #decoder = new TextDecoder();
  #line = "";
  #dump: string | undefined;

  constructor(level: "info" | "warn") {
    this.#level = level;
  }

  readonly write = (bytes: Uint8Array): number => {
    const text = this.#decoder.decode(bytes, { stream: true });
    if (text.startsWith(DUMP)) this.#dump = "";
    if (this.#dump === undefined) this.#writeText(text);
    else if (this.#dump.length < MAX_LINE_LENGTH) this.#dump += text;
    return bytes.length;
  };

  #writeText(text: string): void {
    let begin = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", begin)) {
      this.#append(text, begin, end);
      this.#send();
      begin = end + 1;
    }
    this.#append(text, begin, text.length);
  }

  /** Returns the dump that was printed at a crash, and clears it. */
  takeDump(): string {
    const dump = this.#dump ?? "";
    this.#dump = undefined;
    return dump;
  }

  /** Keeps no more of a line than the log shows. */
  #append(text: string, begin: number, end: number): void {
    const room = MAX_LINE_LENGTH + 1 - this.#line.length;
    if (room > 0) this.#line += text.slice(begin, Math.min(end, begin + room));
  }

  #send(): void {
    const line = this.#line;
    this.#line = "";
    writeLazily(this.#level, () => line);
  }

  /** Writes an unfinished last line at the end of a run. */
  readonly end = (): void => {
    this.#writeText(this.takeDump());
    this.#line += this.#decoder.decode();
    this.#decoder = new TextDecoder();
    if (this.#line !== "") this.#send();
  };
}

export const streams: { readonly stdout: Lines; readonly stderr: Lines } = {
  stdout: new Lines("info"),
  stderr: new Lines("warn"),
};
