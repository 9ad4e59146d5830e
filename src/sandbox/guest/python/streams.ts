// What Python prints, as lines of the log: stdout at level info, stderr at warn.
import { LINE_UNITS, writeLazily } from "./prelude.ts";

/** What the interpreter begins with when it crashes and says where it was; nothing follows it. */
const DUMP = "Stack (most recent call first):\n";

/** Cuts a stream of bytes into lines. */
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
    else if (this.#dump.length < LINE_UNITS) this.#dump += text;
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

  /** The author's part of where the interpreter was when it crashed. */
  takeDump(): string {
    const dump = this.#dump ?? "";
    this.#dump = undefined;
    return dump;
  }

  /** Of a line no more is kept than is shown of it. */
  #append(text: string, begin: number, end: number): void {
    const room = LINE_UNITS + 1 - this.#line.length;
    if (room > 0) this.#line += text.slice(begin, Math.min(end, begin + room));
  }

  #send(): void {
    const line = this.#line;
    this.#line = "";
    writeLazily(this.#level, () => line);
  }

  /** What was printed without a line's end, at the end of a run. */
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
