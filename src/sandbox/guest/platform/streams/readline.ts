// node:readline over a stream: its lines as events or as an iterator. There is no terminal.

import { StringDecoder } from "../buffer/node-buffer.ts";
import { EventEmitter } from "../events/node-events.ts";
import { adoptable, callable, constructible } from "../shared/callable-classes.ts";
import { nameClasses } from "../shared/class-names.ts";
import { unsupported } from "../shared/node-error.ts";
import { unsupportedMembers } from "../shared/unsupported-members.ts";

interface Input {
  on(name: string, listener: (chunk: Uint8Array | string) => void): unknown;
  pause?(): unknown;
  resume?(): unknown;
}
interface Output {
  write(text: string): unknown;
}
interface InterfaceOptions {
  readonly input: Input;
  readonly output?: Output;
  readonly crlfDelay?: number;
  readonly prompt?: string;
}

class LineReader extends adoptable(EventEmitter) {
  readonly input: Input;
  readonly output: Output | undefined;
  readonly terminal = false;
  closed = false;
  #prompt: string;
  #rest = "";
  readonly #decoder = new StringDecoder("utf8");
  readonly #questions: ((line: string) => void)[] = [];

  constructor(given: InterfaceOptions | Input, output?: Output) {
    super();
    const options = "input" in given ? given : ({ input: given, output } as InterfaceOptions);
    this.input = options.input;
    this.output = options.output;
    this.#prompt = options.prompt ?? "> ";
    this.input.on("data", (chunk) => this.#read(this.#decoder.write(chunk)));
    this.input.on("end", () => {
      this.#read(this.#decoder.end());
      if (this.#rest !== "") this.#line(this.#rest);
      this.#rest = "";
      this.close();
    });
    this.input.resume?.();
  }

  #read(text: string): void {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)|\u2028|\u2029/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#line(line);
  }

  #line(text: string): void {
    const line = text.replace(/\r$/, "");
    const question = this.#questions.shift();
    if (question === undefined) this.emit("line", line);
    else question(line);
  }

  setPrompt(prompt: string): void {
    this.#prompt = prompt;
  }
  getPrompt(): string {
    return this.#prompt;
  }
  prompt(): void {
    this.output?.write(this.#prompt);
  }
  question(query: string, ...rest: unknown[]): unknown {
    this.output?.write(query);
    const callback = rest.at(-1);
    if (typeof callback === "function") this.#questions.push(callback as (line: string) => void);
    return undefined;
  }
  pause(): this {
    this.input.pause?.();
    this.emit("pause");
    return this;
  }
  resume(): this {
    this.input.resume?.();
    this.emit("resume");
    return this;
  }
  write(text: string): void {
    this.#read(text);
  }
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.input.pause?.();
    this.emit("close");
  }
  [Symbol.dispose](): void {
    this.close();
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<string> {
    const lines: string[] = [];
    const waiting: ((result: IteratorResult<string>) => void)[] = [];
    this.on("line", (line) => {
      const next = waiting.shift();
      if (next === undefined) lines.push(line as string);
      else next({ value: line as string, done: false });
    });
    this.on("close", () => {
      for (const next of waiting.splice(0)) next({ value: undefined, done: true });
    });
    return {
      next: () => {
        const value = lines.shift();
        if (value !== undefined) return Promise.resolve({ value, done: false });
        if (this.closed) return Promise.resolve({ value: undefined, done: true });
        return new Promise((resolve) => waiting.push(resolve));
      },
      return: () => {
        this.close();
        return Promise.resolve({ value: undefined, done: true });
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }
}

const Interface = callable(LineReader);
nameClasses({ Interface });

class PromisesInterface extends LineReader {
  override question(query: string): unknown {
    return new Promise<string>((resolve) => super.question(query, resolve));
  }
}

const unsupportedFunction = (name: string) => (): never => {
  throw unsupported(`readline.${name}()`, "a tool has no terminal");
};

export const readlinePromises = {
  Interface: PromisesInterface,
  createInterface: (given: InterfaceOptions | Input, output?: Output) => new PromisesInterface(given, output),
  ...unsupportedMembers("readline.promises", "a tool has no terminal", "Readline"),
};

export const readline = {
  Interface,
  createInterface: constructible(
    "createInterface",
    (given: InterfaceOptions | Input, output?: Output) => new LineReader(given, output),
  ),
  clearLine: unsupportedFunction("clearLine"),
  clearScreenDown: unsupportedFunction("clearScreenDown"),
  cursorTo: unsupportedFunction("cursorTo"),
  moveCursor: unsupportedFunction("moveCursor"),
  emitKeypressEvents: unsupportedFunction("emitKeypressEvents"),
  promises: readlinePromises,
};
