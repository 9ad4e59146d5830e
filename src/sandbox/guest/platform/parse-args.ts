// util.parseArgs: parses a command line into options and positionals.
import { nodeError } from "./node-error.ts";

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
}

type Values = { [name: string]: unknown };

class ArgumentReader {
  readonly values = Object.create(null) as Values;
  readonly positionals: string[] = [];
  readonly #config: Required<Omit<ParseArgsConfig, "args">>;
  readonly #args: string[];

  constructor(config: ParseArgsConfig) {
    const { args = [], options = {}, strict = true, allowPositionals = !strict, allowNegative = false } = config;
    this.#config = { options, strict, allowPositionals, allowNegative };
    this.#args = [...args];
  }

  read(): void {
    for (let arg = this.#args.shift(); arg !== undefined; arg = this.#args.shift()) {
      if (arg === "--") {
        for (const rest of this.#args.splice(0)) this.#positional(rest);
      } else if (arg.startsWith("--")) this.#long(arg.slice(2));
      else if (arg.startsWith("-") && arg !== "-") this.#short(arg.slice(1));
      else this.#positional(arg);
    }
    for (const [name, { default: value }] of Object.entries(this.#config.options)) {
      if (value !== undefined && !Object.hasOwn(this.values, name)) this.values[name] = value;
    }
  }

  #positional(text: string): void {
    if (!this.#config.allowPositionals) {
      const message = `Unexpected argument '${text}'. This command does not take positional arguments`;
      throw nodeError(TypeError, "ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL", message);
    }
    this.positionals.push(text);
  }

  #long(text: string): void {
    const equals = text.indexOf("=");
    const name = equals < 0 ? text : text.slice(0, equals);
    const value = equals < 0 ? undefined : text.slice(equals + 1);
    if (this.#config.allowNegative && name.startsWith("no-") && !Object.hasOwn(this.#config.options, name)) {
      this.#store(name.slice("no-".length), false);
    } else this.#option(name, `--${name}`, value);
  }

  /** Parses `-abc` as three options. The first one that takes a value takes the rest of the text. */
  #short(text: string): void {
    for (let index = 0; index < text.length; index += 1) {
      const letter = text[index] as string;
      const name = Object.entries(this.#config.options).find(([, { short }]) => short === letter)?.[0] ?? letter;
      const rest = text.slice(index + 1);
      if (this.#config.options[name]?.type === "string" && rest !== "") {
        this.#option(name, `-${letter}`, rest);
        return;
      }
      this.#option(name, `-${letter}`, undefined);
    }
  }

  #option(name: string, shown: string, given: string | undefined): void {
    const { options, strict } = this.#config;
    const option = Object.hasOwn(options, name) ? options[name] : undefined;
    if (option === undefined) {
      if (strict) throw nodeError(TypeError, "ERR_PARSE_ARGS_UNKNOWN_OPTION", `Unknown option '${shown}'`);
      this.#store(name, given ?? true);
      return;
    }
    if (option.type === "boolean") {
      if (given !== undefined && strict) this.#invalid(`Option '${shown}' does not take an argument`);
      this.#store(name, given ?? true);
      return;
    }
    const value = given ?? this.#args.shift();
    if (value === undefined && strict) this.#invalid(`Option '${shown} <value>' argument missing`);
    this.#store(name, value ?? true);
  }

  #invalid(message: string): never {
    throw nodeError(TypeError, "ERR_PARSE_ARGS_INVALID_OPTION_VALUE", message);
  }

  #store(name: string, value: unknown): void {
    if (name === "__proto__") return;
    if (!this.#config.options[name]?.multiple) this.values[name] = value;
    else if (Array.isArray(this.values[name])) this.values[name].push(value);
    else this.values[name] = [value];
  }
}

/** A tool has no command line, so the default of `args` is empty. */
export function parseArgs(config: ParseArgsConfig = {}): { readonly values: Values; readonly positionals: string[] } {
  const reader = new ArgumentReader(config);
  reader.read();
  return { values: reader.values, positionals: reader.positionals };
}
