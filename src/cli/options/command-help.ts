// The help of one command: the lines of the general help that concern it.
import { USAGE } from "../usage.ts";
import { COMMAND_NAMES, COMMAND_SPECS, type CommandName } from "./option-table.ts";

/** An option in the general help: its name without dashes, and its lines. */
interface DescribedOption {
  readonly name: string;
  readonly text: string;
}

interface Section {
  /** The commands that the title names. */
  readonly commands: ReadonlySet<string>;
  readonly options: readonly DescribedOption[];
}

const SECTIONS: readonly Section[] = USAGE.split("\n\n")
  .filter((text) => text.startsWith("Options of "))
  .map((text) => {
    const [title = "", ...lines] = text.split("\n");
    // What follows the names says more about them.
    const names = title.replace(/[.(:].*/, "").match(/[a-z]+/g) ?? [];
    return { commands: new Set(names), options: lines.reduce(addLine, []) };
  });

/** Adds a line to the options: it begins one, or goes on with the one before. */
function addLine(options: readonly DescribedOption[], line: string): readonly DescribedOption[] {
  const name = /^ {2}--?([a-z-]*)/.exec(line)?.[1];
  const last = options.at(-1);
  if (name !== undefined) return [...options, { name, text: line }];
  return last === undefined ? options : [...options.slice(0, -1), { ...last, text: `${last.text}\n${line}` }];
}

/** Returns how a command is called, and its options. */
export function commandHelp(command: CommandName): string {
  const usage = USAGE.split("\n").filter((line) => new RegExp(`^  glovebox ${command}(?: |$)`).test(line));
  const own = SECTIONS.filter(({ commands }) => commands.has(command));
  const { positionals } = COMMAND_SPECS[command];
  const known = [...Object.keys(COMMAND_SPECS[command].options), ...("stdin" in positionals ? [""] : [])];
  const texts = known.flatMap((name) => {
    const section = [...own, ...SECTIONS].find(({ options }) => options.some((option) => option.name === name));
    return section?.options.find((option) => option.name === name)?.text ?? [];
  });
  const options = texts.length === 0 ? [] : ["", "Options", ...texts];
  return ["Usage", ...usage, ...options, "", "All commands: glovebox --help"].join("\n");
}

/** Returns the command whose help the arguments request; undefined for the general help. */
export const commandOf = ([first, second]: readonly string[]): CommandName | undefined =>
  COMMAND_NAMES.find((name) => name === (first === "help" ? second : first));
