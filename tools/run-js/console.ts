// The console of a snippet: lines in order, as many as a model can use.
import { format } from "node:util";

const MAX_LINES = 500;
const MAX_CHARACTERS = 20_000;
const LEVELS = ["debug", "log", "info", "warn", "error"] as const;
type Level = (typeof LEVELS)[number];

interface ConsoleLine {
  readonly level: Level;
  readonly text: string;
}

export class SnippetConsole {
  readonly #lines: ConsoleLine[] = [];
  #characters = 0;
  #dropped = 0;
  /** The `console` of the snippet: the sandbox's own, with replaced methods for writing lines. */
  readonly face: object;

  constructor() {
    const own = LEVELS.map((level) => [level, (...values: unknown[]) => this.#write(level, values)] as const);
    const [, log] = own.find(([level]) => level === "log") as (typeof own)[number];
    this.face = Object.assign(Object.create(console), Object.fromEntries(own), { dir: log, trace: log });
  }

  #write(level: Level, values: readonly unknown[]): void {
    const room = MAX_CHARACTERS - this.#characters;
    if (this.#lines.length >= MAX_LINES || room <= 0) {
      this.#dropped += 1;
      return;
    }
    const text = format(...values).slice(0, room);
    this.#characters += text.length;
    this.#lines.push({ level, text });
  }

  finish(): { readonly console: ConsoleLine[]; readonly consoleDropped?: number } {
    return { console: this.#lines, ...(this.#dropped === 0 ? {} : { consoleDropped: this.#dropped }) };
  }
}
