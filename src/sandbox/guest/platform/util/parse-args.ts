// util.parseArgs: parses a command line into options and positionals.
import { nodeError } from "../shared/node-error.ts";

interface OptionConfig {
  readonly type: "string" | "boolean";
  readonly short?: string;
  readonly multiple?: boolean;
  readonly default?: unknown;
}

interface ParseArgsConfig {
  readonly args?: readonly string[];
  readonly options?: { readonly [name: string]: OptionConfig };
  readonly strict?: boolean;
  readonly allowPositionals?: boolean;
  readonly allowNegative?: boolean;
  readonly tokens?: boolean;
}

/** A part of the command line, in the form of Node. */
type Token =
  | { readonly kind: "positional"; readonly index: number; readonly value: string }
  | { readonly kind: "option-terminator"; readonly index: number }
  | {
      readonly kind: "option";
      readonly name: string;
      readonly rawName: string;
      readonly index: number;
      readonly value: string | undefined;
      readonly inlineValue: boolean | undefined;
    };

type Values = { [name: string]: unknown };

class ArgumentReader {
  readonly values = Object.create(null) as Values;
  readonly positionals: string[] = [];
  readonly tokens: Token[] = [];
  readonly #config: Required<Omit<ParseArgsConfig, "args" | "tokens">>;
  readonly #args: readonly string[];
  /** Index of the next argument. */
  #next = 0;

  constructor(config: ParseArgsConfig) {
    const { args = [], options = {}, strict = true, allowPositionals = !strict, allowNegative = false } = config;
    this.#config = { options, strict, allowPositionals, allowNegative };
    this.#args = [...args];
  }

  read(): void {
    for (let arg = this.#take(); arg !== undefined; arg = this.#take()) {
      if (arg === "--") {
        this.tokens.push({ kind: "option-terminator", index: this.#next - 1 });
        for (let rest = this.#take(); rest !== undefined; rest = this.#take()) this.#positional(rest);
      } else if (arg.startsWith("--")) this.#long(arg.slice(2));
      else if (arg.startsWith("-") && arg !== "-") this.#short(arg.slice(1));
      else this.#positional(arg);
    }
    for (const [name, { default: value }] of Object.entries(this.#config.options)) {
      if (value !== undefined && !Object.hasOwn(this.values, name)) this.values[name] = value;
    }
  }

  #take(): string | undefined {
    const arg = this.#args[this.#next];
    if (this.#next < this.#args.length) this.#next += 1;
    return arg;
  }

  #positional(value: string): void {
    this.tokens.push({ kind: "positional", index: this.#next - 1, value });
    if (!this.#config.allowPositionals) {
      const message = `Unexpected argument '${value}'. This command does not take positional arguments`;
      throw nodeError(TypeError, "ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL", message);
    }
    this.positionals.push(value);
  }

  #long(text: string): void {
    const equals = text.indexOf("=");
    const name = equals < 0 ? text : text.slice(0, equals);
    const value = equals < 0 ? undefined : text.slice(equals + 1);
    const negated = name.slice("no-".length);
    if (
      this.#config.allowNegative &&
      value === undefined &&
      name.startsWith("no-") &&
      !Object.hasOwn(this.#config.options, name)
    ) {
      this.#record(negated, `--${name}`, this.#next - 1, undefined, undefined);
      if (this.#config.strict) this.#known(negated, `--${name}`);
      this.#store(negated, false);
    } else this.#option(name, `--${name}`, value);
  }

  /** Parses `-abc` as three options. The first one that takes a value takes the rest of the text. */
  #short(text: string): void {
    for (let index = 0; index < text.length; index += 1) {
      const letter = text[index] as string;
      const name = Object.entries(this.#config.options).find(([, { short }]) => short === letter)?.[0] ?? letter;
      const rest = text.slice(index + 1);
      if (this.#optionOf(name)?.type === "string" && rest !== "") {
        this.#option(name, `-${letter}`, rest);
        return;
      }
      this.#option(name, `-${letter}`, undefined);
    }
  }

  #optionOf(name: string): OptionConfig | undefined {
    return Object.hasOwn(this.#config.options, name) ? this.#config.options[name] : undefined;
  }

  #known(name: string, shown: string): void {
    if (this.#optionOf(name) !== undefined) return;
    throw nodeError(TypeError, "ERR_PARSE_ARGS_UNKNOWN_OPTION", `Unknown option '${shown}'`);
  }

  #option(name: string, shown: string, given: string | undefined): void {
    const { strict } = this.#config;
    const index = this.#next - 1;
    const option = this.#optionOf(name);
    const value = given ?? (option?.type === "string" ? this.#take() : undefined);
    const inlineValue = value === undefined ? undefined : given !== undefined;
    this.#record(name, shown, index, value, inlineValue);
    if (strict) {
      this.#known(name, shown);
      if (option?.type === "boolean" && value !== undefined)
        this.#invalid(`Option '${shown}' does not take an argument`);
      if (option?.type === "string" && value === undefined) this.#invalid(`Option '${shown} <value>' argument missing`);
      if (inlineValue === false && value !== "-" && value?.startsWith("-"))
        this.#invalid(
          `Option '${shown}' argument is ambiguous: give a value that starts with a dash as '${shown}=${value}'`,
        );
    }
    this.#store(name, value ?? true);
  }

  #record(
    name: string,
    rawName: string,
    index: number,
    value: string | undefined,
    inlineValue: boolean | undefined,
  ): void {
    this.tokens.push({ kind: "option", name, rawName, index, value, inlineValue });
  }

  #invalid(message: string): never {
    throw nodeError(TypeError, "ERR_PARSE_ARGS_INVALID_OPTION_VALUE", message);
  }

  #store(name: string, value: unknown): void {
    if (name === "__proto__") return;
    if (!this.#optionOf(name)?.multiple) this.values[name] = value;
    else if (Array.isArray(this.values[name])) this.values[name].push(value);
    else this.values[name] = [value];
  }
}

interface ParsedArgs {
  readonly values: Values;
  readonly positionals: string[];
  readonly tokens?: Token[];
}

/** A tool has no command line, so the default of `args` is empty. */
export function parseArgs(config: ParseArgsConfig = {}): ParsedArgs {
  const reader = new ArgumentReader(config);
  reader.read();
  const { values, positionals, tokens } = reader;
  return config.tokens === true ? { values, positionals, tokens } : { values, positionals };
}
