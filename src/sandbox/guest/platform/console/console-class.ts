// Console of node:console: writes to streams of the tool, in the format of the global console.
import { callable } from "../shared/callable-classes.ts";
import { invalidArgument, nodeError } from "../shared/node-error.ts";
import { dir, format, table } from "./formatting.ts";

declare const performance: { now(): number };

interface Output {
  write(text: string): unknown;
}
interface ConsoleOptions {
  readonly stdout?: Output;
  readonly stderr?: Output;
  readonly ignoreErrors?: boolean;
  readonly groupIndentation?: number;
}

const isOutput = (value: unknown): value is Output =>
  typeof (value as Partial<Output> | null | undefined)?.write === "function";

/** Reads the arguments of the constructor: options, or the streams. */
function toOptions(given: unknown, stderr: unknown, ignoreErrors: unknown): ConsoleOptions {
  const options = (isOutput(given) ? { stdout: given, stderr, ignoreErrors } : given) as ConsoleOptions | undefined;
  for (const name of ["stdout", "stderr"] as const) {
    if (!isOutput(options?.[name]) && !(name === "stderr" && options?.stderr === undefined))
      throw nodeError(
        TypeError,
        "ERR_CONSOLE_WRITABLE_STREAM",
        `Console expects a writable stream instance for ${name}`,
      );
  }
  return options as ConsoleOptions;
}

/** Formats a duration as the global console does. */
const formatTime = (ms: number): string => (ms < 1_000 ? `${ms.toFixed(3)}ms` : `${(ms / 1_000).toFixed(3)}s`);

class ConsoleState {
  readonly #stdout: Output;
  readonly #stderr: Output;
  readonly #ignoreErrors: boolean;
  readonly #indentation: number;
  readonly #counts = new Map<string, number>();
  readonly #started = new Map<string, number>();
  #indent = "";

  constructor(given?: unknown, stderr?: unknown, ignoreErrors?: unknown) {
    const options = toOptions(given, stderr, ignoreErrors);
    const { groupIndentation = 2 } = options;
    if (typeof groupIndentation !== "number")
      throw invalidArgument("groupIndentation", "of type number", groupIndentation);
    this.#stdout = options.stdout as Output;
    this.#stderr = options.stderr ?? this.#stdout;
    this.#ignoreErrors = options.ignoreErrors !== false;
    this.#indentation = groupIndentation;
    // Libraries pass the methods on without the object.
    for (const name of METHODS) Object.defineProperty(this, name, { ...METHOD, value: this[name].bind(this) });
  }

  #write(stream: Output, text: string): void {
    const shown = this.#indent === "" ? text : this.#indent + text.replaceAll("\n", `\n${this.#indent}`);
    try {
      stream.write(`${shown}\n`);
    } catch (error) {
      if (!this.#ignoreErrors) throw error;
    }
  }
  log(...args: unknown[]): void {
    this.#write(this.#stdout, format(args));
  }
  info(...args: unknown[]): void {
    this.log(...args);
  }
  debug(...args: unknown[]): void {
    this.log(...args);
  }
  dirxml(...args: unknown[]): void {
    this.log(...args);
  }
  error(...args: unknown[]): void {
    this.#write(this.#stderr, format(args));
  }
  warn(...args: unknown[]): void {
    this.error(...args);
  }
  trace(...args: unknown[]): void {
    const { stack = "" } = new Error();
    this.error(`Trace${args.length === 0 ? "" : `: ${format(args)}`}${stack.slice(stack.indexOf("\n"))}`);
  }
  dir(value?: unknown, options?: unknown): void {
    this.#write(this.#stdout, dir(value, options));
  }
  table(data?: unknown, columns?: unknown): void {
    this.log(table(data, columns) ?? data);
  }
  assert(condition?: unknown, ...args: unknown[]): void {
    if (condition) return;
    const [first, ...rest] = args;
    if (typeof first === "string") this.warn(`Assertion failed: ${first}`, ...rest);
    else this.warn("Assertion failed", ...args);
  }
  count(label: unknown = "default"): void {
    const name = String(label);
    const count = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, count);
    this.log(`${name}: ${count}`);
  }
  countReset(label: unknown = "default"): void {
    this.#counts.delete(String(label));
  }
  group(...args: unknown[]): void {
    if (args.length > 0) this.log(...args);
    this.#indent += " ".repeat(this.#indentation);
  }
  groupCollapsed(...args: unknown[]): void {
    this.group(...args);
  }
  groupEnd(): void {
    this.#indent = this.#indent.slice(this.#indentation);
  }
  time(label: unknown = "default"): void {
    const name = String(label);
    if (!this.#started.has(name)) this.#started.set(name, performance.now());
  }
  timeLog(label: unknown = "default", ...args: unknown[]): void {
    const start = this.#started.get(String(label));
    if (start !== undefined) this.log(`${String(label)}: ${formatTime(performance.now() - start)}`, ...args);
  }
  timeEnd(label: unknown = "default"): void {
    this.timeLog(label);
    this.#started.delete(String(label));
  }
  clear(): void {}
}

const METHOD = { writable: true, enumerable: true, configurable: true };
const METHODS = Object.getOwnPropertyNames(ConsoleState.prototype).filter(
  (name) => name !== "constructor",
) as readonly Exclude<keyof ConsoleState, "constructor">[];

export const Console = callable(ConsoleState);
Object.defineProperty(Console, "name", { value: "Console", configurable: true });
