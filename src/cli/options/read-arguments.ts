// Parses the arguments of a command strictly against its table. An unknown, repeated, empty, missing or malformed argument is an error that
// names the option, so that a mistake never selects a default.
import { findNearestName } from "../../host/config/option-errors.ts";
import { type Arguments, UsageError } from "../usage.ts";
import { COMMAND_NAMES, COMMAND_SPECS, type CommandName, type CommandSpec, type OptionSpec } from "./option-table.ts";

const MAX_SHOWN_LENGTH = 200;

/** Options of earlier versions, with their present names. */
const RENAMED_OPTIONS: ReadonlyMap<string, string> = new Map([["--log-places", "--log-source-locations"]]);

/** Quotes an argument, shortened. CliOutput escapes it. */
export const quoteValue = (text: string): string =>
  `"${text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, MAX_SHOWN_LENGTH)}…` : text}"`;

/** Returns whether an argument is an option. A number may be negative, and `-` alone is a value. */
const isOption = (text: string): boolean => /^-[^\d]/.test(text);

class ArgumentReader {
  readonly #command: CommandName;
  readonly #spec: CommandSpec;
  readonly #rest: string[];
  readonly #given = new Map<string, string[]>();
  readonly #positionals: string[] = [];
  #stdin = 0;

  constructor(command: CommandName, args: readonly string[]) {
    this.#command = command;
    this.#spec = COMMAND_SPECS[command];
    this.#rest = [...args];
  }

  read(): Arguments {
    for (let arg = this.#rest.shift(); arg !== undefined; arg = this.#rest.shift()) {
      if (arg === "--") this.#positionals.push(...this.#rest.splice(0));
      else if (arg === "-" && this.#spec.positionals.stdin === true) this.#stdin += 1;
      else if (isOption(arg)) this.#option(arg);
      else this.#positionals.push(arg);
    }
    this.#checkPositionals();
    return this.#result();
  }

  #option(arg: string): void {
    const [, typed = arg, inline] = /^(--?[^=]*)(?:=([\s\S]*))?$/.exec(arg) ?? [];
    const long = this.#spec.short?.[typed];
    const flag = long === undefined ? typed : `--${long}`;
    const name = flag.slice(2);
    const spec = flag.startsWith("--") ? ownSpec(this.#spec, name) : undefined;
    if (spec === undefined) throw new UsageError(this.#unknown(flag));
    const values = this.#given.get(name) ?? [];
    if (values.length > 0 && (spec === "switch" || spec.multiple !== true)) {
      throw new UsageError(`--${name}: expected at most once, got it several times`);
    }
    values.push(this.#valueOf(name, spec, inline));
    this.#given.set(name, values);
  }

  #valueOf(name: string, spec: OptionSpec, inline: string | undefined): string {
    if (spec === "switch") {
      if (inline !== undefined) throw new UsageError(`--${name}: expected no value, got ${quoteValue(inline)}`);
      return "";
    }
    const fail = (got: string): UsageError => new UsageError(`--${name}: expected ${spec.expects}, got ${got}`);
    const text = inline ?? spec.bare ?? this.#next(name, fail);
    if (text === "") throw fail("an empty value");
    if (!spec.accepts(text)) throw fail(quoteValue(text));
    return text;
  }

  #next(name: string, fail: (got: string) => UsageError): string {
    const [next] = this.#rest;
    if (next === undefined) throw fail("no value");
    if (isOption(next)) throw fail(`${quoteValue(next)}. Write a value that starts with - as --${name}=VALUE`);
    return this.#rest.shift() ?? "";
  }

  #unknown(flag: string): string {
    const quoted = `Unknown option ${quoteValue(flag)} of ${this.#command}`;
    const names = Object.keys(this.#spec.options).map((name) => `--${name}`);
    const renamed = RENAMED_OPTIONS.get(flag);
    if (renamed !== undefined && names.includes(renamed)) return `${quoted}. It is now called ${renamed}`;
    const nearest = findNearestName(flag.slice(0, MAX_SHOWN_LENGTH), names);
    if (nearest !== undefined) return `${quoted}. Did you mean ${nearest}?`;
    const others = COMMAND_NAMES.filter((name) => ownSpec(COMMAND_SPECS[name], flag.slice(2)) !== undefined);
    if (flag.startsWith("--") && others.length > 0) return `${quoted}. It is an option of ${others.join(", ")}`;
    if (names.length === 0) return `${quoted}, which takes no options`;
    return `${quoted}. Expected one of ${names.join(", ")}`;
  }

  #checkPositionals(): void {
    const { expects, min, max } = this.#spec.positionals;
    const texts = this.#positionals;
    if (texts.includes("")) throw new UsageError(`Expected ${expects}, got an empty argument`);
    if (texts.length < min) throw new UsageError(`Expected ${expects}, got nothing`);
    const extra = texts[max];
    if (extra !== undefined && max === 0) {
      throw new UsageError(`${this.#command} takes no arguments, got ${quoteValue(extra)}`);
    }
    if (extra !== undefined) throw new UsageError(`Expected one ${expects}, also got ${quoteValue(extra)}`);
    if (this.#stdin > 1) throw new UsageError("-: expected at most once, got it several times");
  }

  #result(): Arguments {
    const values: Record<string, string | boolean | readonly string[] | undefined> = {};
    for (const [name, given] of this.#given) {
      const spec = ownSpec(this.#spec, name);
      if (spec === "switch") values[name] = true;
      else values[name] = spec?.multiple === true ? given : given[0];
    }
    return { values, positionals: this.#positionals, stdin: this.#stdin > 0 };
  }
}

const ownSpec = ({ options }: CommandSpec, name: string): OptionSpec | undefined =>
  Object.hasOwn(options, name) ? options[name] : undefined;

/** @throws {UsageError} for arguments that the command's table does not allow */
export const readArguments = (command: CommandName, args: readonly string[]): Arguments =>
  new ArgumentReader(command, args).read();

/** Returns the command of this name. @throws {UsageError} for an unknown name, with the nearest command */
export function readCommandName(text: string): CommandName {
  const found = COMMAND_NAMES.find((name) => name === text);
  if (found !== undefined) return found;
  const what = text.startsWith("-") ? "Expected a command first, got the option" : "There is no command";
  const nearest = findNearestName(text.slice(0, MAX_SHOWN_LENGTH), COMMAND_NAMES);
  const help = nearest === undefined ? `; expected one of ${COMMAND_NAMES.join(", ")}` : `. Did you mean ${nearest}?`;
  throw new UsageError(`${what} ${quoteValue(text)}${help}`);
}
