// Which command, and what its exit code says: 0 success, 1 the tool or a limit failed, 2 usage or bundle error.
import { ToolError } from "../../sandbox/errors.ts";
import { packageVersion } from "../package-version.ts";
import { type Io, USAGE, UsageError } from "./usage.ts";

type Command = (args: readonly string[], io: Io) => Promise<number>;

/** Loaded when asked for: a mistyped command should not wait for a bundler. */
const COMMANDS: ReadonlyMap<string, () => Promise<Command>> = new Map([
  ["run", async () => (await import("./run.ts")).runCommand],
  ["dev", async () => (await import("./dev.ts")).devCommand],
  ["mcp", async () => (await import("./mcp.ts")).mcpCommand],
  ["test", async () => (await import("./test.ts")).testCommand],
  ["types", async () => (await import("./types.ts")).typesCommand],
  ["inspect", async () => (await import("./inspect.ts")).inspectCommand],
  ["doctor", async () => (await import("./doctor.ts")).doctorCommand],
  ["init", async () => (await import("./init.ts")).initCommand],
]);

/** Runs one command line. Resolves with the exit code; never rejects for what a person typed. */
export async function runCli(args: readonly string[], io: Io): Promise<number> {
  const [name, ...rest] = args;
  if (name === undefined || name === "help" || args.includes("--help") || args.includes("-h")) {
    (name === undefined ? io.stderr : io.stdout).write(`${USAGE}\n`);
    return name === undefined ? 2 : 0;
  }
  if (name === "--version" || name === "-v") {
    io.stdout.write(`${packageVersion()}\n`);
    return 0;
  }
  const load = COMMANDS.get(name);
  try {
    if (load === undefined) {
      throw new UsageError(`There is no command "${name}"; expected one of ${[...COMMANDS.keys()].join(", ")}`);
    }
    const command = await load();
    return await command(rest, io);
  } catch (thrown) {
    if (!(thrown instanceof UsageError) && !(thrown instanceof ToolError)) throw thrown;
    io.stderr.write(`glovebox: ${thrown.message}\n`);
    if (thrown instanceof UsageError) io.stderr.write("Run glovebox --help for the usage\n");
    return 2;
  }
}
