// Runs a command and converts its outcome to an exit code: 0 success, 1 the tool or a limit failed, 2 usage or bundle error.

import { packageVersion } from "../host/config/package-version.ts";
import { toVisibleLine } from "../host/util/visible-text.ts";
import { ToolError } from "../sandbox/contract/errors.ts";
import { commandHelp, commandOf } from "./options/command-help.ts";
import type { CommandName } from "./options/option-table.ts";
import { quoteValue, readArguments, readCommandName } from "./options/read-arguments.ts";
import { type Io, stopCodeOf } from "./terminal/process-io.ts";
import { type Arguments, OutputError, USAGE, UsageError } from "./usage.ts";

type CliCommand = (given: Arguments, io: Io) => Promise<number>;

/** The commands. Each is loaded only when it runs, so that `--help` and usage errors do not load the bundler. */
const COMMANDS: { readonly [Name in CommandName]: () => Promise<CliCommand> } = {
  run: async () => (await import("./commands/run.ts")).runCommand,
  dev: async () => (await import("./commands/dev.ts")).devCommand,
  mcp: async () => (await import("./commands/mcp.ts")).mcpCommand,
  test: async () => (await import("./commands/test.ts")).testCommand,
  types: async () => (await import("./commands/types.ts")).typesCommand,
  inspect: async () => (await import("./commands/inspect.ts")).inspectCommand,
  serve: async () => (await import("./commands/serve.ts")).serveCommand,
  executor: async () => (await import("./commands/executor.ts")).executorCommand,
  config: async () => (await import("./commands/serve.ts")).configCommand,
  db: async () => (await import("./commands/db.ts")).dbCommand,
  login: async () => (await import("./commands/remote.ts")).loginCommand,
  deploy: async () => (await import("./commands/remote.ts")).deployCommand,
  rollback: async () => (await import("./commands/remote.ts")).rollbackCommand,
  tools: async () => (await import("./commands/remote.ts")).toolsCommand,
  calls: async () => (await import("./commands/remote.ts")).callsCommand,
  logs: async () => (await import("./commands/logs.ts")).logsCommand,
  call: async () => (await import("./commands/remote.ts")).callCommand,
  replay: async () => (await import("./commands/replay.ts")).replayCommand,
  rehearse: async () => (await import("./commands/replay.ts")).rehearseCommand,
  approvals: async () => (await import("./commands/approvals.ts")).approvalsCommand,
  runs: async () => (await import("./commands/runs.ts")).runsCommand,
  fleet: async () => (await import("./commands/fleet.ts")).fleetCommand,
  top: async () => (await import("./commands/top.ts")).topCommand,
  secrets: async () => (await import("./commands/secrets.ts")).secretsCommand,
  doctor: async () => (await import("./commands/doctor.ts")).doctorCommand,
  init: async () => (await import("./commands/init.ts")).initCommand,
};

/** Prints the usage or the version. Returns undefined if the arguments request neither. */
function answerMeta(args: readonly string[], io: Io): number | undefined {
  const [name, extra] = args;
  if (name === undefined) {
    io.stderr.print(`${USAGE}\n`);
    return 2;
  }
  const beforeEnd = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  if (beforeEnd.includes("--help") || beforeEnd.includes("-h") || name === "help") {
    const command = commandOf(args);
    if (name === "help" && extra?.startsWith("-") === false && command === undefined)
      throw new UsageError(`help: expected the name of a command, got ${quoteValue(extra)}`);
    io.stdout.print(`${command === undefined ? USAGE : commandHelp(command)}\n`);
    return 0;
  }
  if (name !== "--version" && name !== "-v") return undefined;
  if (extra !== undefined) throw new UsageError(`${name} takes no arguments, got ${quoteValue(extra)}`);
  io.stdout.print(`${packageVersion()}\n`);
  return 0;
}

/** Runs one command line. Resolves with the exit code; rejects only with unexpected errors. */
export async function runCli(args: readonly string[], io: Io): Promise<number> {
  try {
    const answered = answerMeta(args, io);
    if (answered !== undefined) return answered;
    const [first = "", ...rest] = args;
    const name = readCommandName(first);
    const given = readArguments(name, rest);
    const command = await COMMANDS[name]();
    return await command(given, io);
  } catch (thrown) {
    const stopCode = stopCodeOf(io);
    // A stopped command may fail in any way because it was stopped.
    if (stopCode !== undefined) return stopCode;
    if (thrown instanceof UsageError) {
      const command = commandOf(args);
      const help = `glovebox ${command === undefined ? "" : `${command} `}--help`;
      io.stderr.print(`glovebox: ${toVisibleLine(thrown.message)}\nRun ${help} for usage\n`);
      return 2;
    }
    if (!(thrown instanceof ToolError) && !(thrown instanceof OutputError)) throw thrown;
    io.stderr.print(`glovebox: ${thrown.message}\n`);
    return thrown instanceof ToolError ? 2 : 1;
  }
}
