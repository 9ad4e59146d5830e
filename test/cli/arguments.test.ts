// Every option of every command, from the parser's table: each mistake is an error that names the option.
import { describe, expect, test } from "vitest";
import { runCli } from "../../src/cli/cli.ts";
import { COMMAND_NAMES, COMMAND_SPECS, type CommandName, type OptionSpec } from "../../src/cli/options/option-table.ts";
import { USAGE } from "../../src/cli/usage.ts";
import { createTestIo } from "../support/cli-io.ts";

interface End {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function glovebox(...args: readonly string[]): Promise<End> {
  return await gloveboxWith({}, ...args);
}

async function gloveboxWith(env: NodeJS.ProcessEnv, ...args: readonly string[]): Promise<End> {
  const { io, written } = createTestIo();
  const code = await runCli(args, { ...io, env });
  return { code, ...written };
}

/** Valid arguments of a command without the option. The paths do not exist, so a test that gets past the parser fails by its exit code. */
const POSITIONALS: { readonly [Name in CommandName]: readonly string[] } = {
  run: ["no-such-tool.ts"],
  dev: ["no-such-tool.ts"],
  mcp: ["no-such-tool.ts"],
  test: [],
  types: [],
  inspect: ["no-such-tool.ts"],
  init: ["a b"],
  serve: [],
  executor: [],
  config: [],
  db: ["none"],
  login: [],
  deploy: ["no-such-tool.ts"],
  rollback: ["none"],
  replay: ["call_1"],
  rehearse: ["add"],
  tools: [],
  calls: [],
  logs: ["none"],
  call: ["none"],
  approvals: ["list"],
  runs: ["list"],
  fleet: ["list"],
  top: [],
  secrets: ["list"],
  doctor: [],
};

interface Row {
  readonly command: CommandName;
  readonly name: string;
  readonly spec: OptionSpec;
}

const ROWS: readonly Row[] = COMMAND_NAMES.flatMap((command) =>
  Object.entries(COMMAND_SPECS[command].options as { readonly [name: string]: OptionSpec }).map(([name, spec]) => ({
    command,
    name,
    spec,
  })),
);
const VALUE_ROWS = ROWS.flatMap(({ spec, ...row }) => (spec === "switch" ? [] : [{ ...row, spec }]));
const SWITCH_ROWS = ROWS.filter(({ spec }) => spec === "switch");
const NUMBER_ROWS = VALUE_ROWS.filter(({ spec }) => /from \d/.test(spec.expects));

/** Expects one line that names the option and one that refers to the help, exit code 2, and nothing on stdout. */
function expectUsageError(end: End, name: string): void {
  expect(end.stderr).toMatch(/^glovebox: [^\n]*\nRun glovebox (?:[a-z]+ )?--help for usage\n$/);
  expect(end.stderr).toContain(name);
  expect(end).toMatchObject({ code: 2, stdout: "" });
}

describe("an option of the table", () => {
  test.for(VALUE_ROWS)("$command --$name rejects an empty value", async ({ command, name, spec }) => {
    const error = `--${name}: expected ${spec.expects}, got an empty value`;
    expectUsageError(await glovebox(command, ...POSITIONALS[command], `--${name}=`), error);
    if (spec.bare === undefined) {
      expectUsageError(await glovebox(command, `--${name}`, "", ...POSITIONALS[command]), error);
    }
  });

  test.for(VALUE_ROWS.filter(({ spec }) => spec.bare === undefined))(
    "$command --$name rejects a missing value",
    async ({ command, name }) => {
      const error = `--${name}: expected`;
      expectUsageError(await glovebox(command, ...POSITIONALS[command], `--${name}`), error);
      expectUsageError(await glovebox(command, `--${name}`, "--", ...POSITIONALS[command]), error);
      expectUsageError(await glovebox(command, `--${name}`, "--json", ...POSITIONALS[command]), error);
      expectUsageError(await glovebox(command, `--${name}`, "-x", ...POSITIONALS[command]), error);
    },
  );

  test.for(VALUE_ROWS.filter(({ spec }) => spec.multiple !== true))(
    "$command --$name rejects a second value",
    async ({ command, name, spec }) => {
      const value = /from (\d+)/.exec(spec.expects)?.[1] ?? "127.0.0.1";
      const option = `--${name}=${value}`;
      const end = await glovebox(command, ...POSITIONALS[command], option, option);
      expectUsageError(end, `--${name}: expected at most once, got it several times`);
    },
  );

  test.for(VALUE_ROWS.filter(({ name }) => name === "grant"))(
    "$command --grant rejects the name of an unknown capability",
    async ({ command }) => {
      for (const value of ["UNKNOWN", "onRollback", "FETCH"]) {
        const end = await glovebox(command, ...POSITIONALS[command], "--grant", "kv", "--grant", value);
        expectUsageError(end, `--grant: expected one of log, fetch, secrets, kv, tools`);
        expect(end.stderr).toContain(`got "${value}"`);
      }
    },
  );

  test.for(NUMBER_ROWS)(
    "$command --$name rejects values that are not a number in its range",
    async ({ command, name }) => {
      for (const value of [
        "abc",
        "-5",
        "-1",
        "1e999",
        "1e3",
        "0x10",
        "1.5",
        " 5",
        "5 ",
        "NaN",
        "Infinity",
        "99999999999999999999",
      ]) {
        const end = await glovebox(command, ...POSITIONALS[command], `--${name}=${value}`);
        expectUsageError(end, `--${name}: expected`);
        expect(end.stderr).toContain(`got "${value}"`);
      }
      const end = await glovebox(command, ...POSITIONALS[command], `--${name}=1\nforged: line\u001b[2J\u202e`);
      expectUsageError(end, `got "1\\nforged: line\\u001b[2J\\u202e"`);
    },
  );

  test.for(SWITCH_ROWS)("$command --$name rejects a value and a repetition", async ({ command, name }) => {
    const positionals = POSITIONALS[command];
    for (const value of ["", "1", "true", "false"]) {
      expectUsageError(await glovebox(command, ...positionals, `--${name}=${value}`), `--${name}: expected no value`);
    }
    expectUsageError(
      await glovebox(command, ...positionals, `--${name}`, `--${name}`),
      `--${name}: expected at most once`,
    );
    expectUsageError(await glovebox(command, ...positionals, `--no-${name}`), `--no-${name}`);
  });

  test.for(ROWS)("$command --$name is suggested for a misspelling", async ({ command, name }) => {
    const wrong = `--${name}x`;
    const { stderr, code } = await glovebox(command, ...POSITIONALS[command], wrong, "1");
    expect(code).toBe(2);
    const suggested = /Did you mean (--[a-z-]+)\?/.exec(stderr)?.[1] ?? "";
    expect(Object.keys(COMMAND_SPECS[command].options).map((known) => `--${known}`)).toContain(suggested);
  });

  test("is in the usage text, which lists no other option", () => {
    const named = new Set([...USAGE.matchAll(/--([a-z][a-z-]*)/g)].map(([, name]) => name));
    expect([...named].sort()).toEqual([...new Set(ROWS.map(({ name }) => name))].sort());
    for (const name of COMMAND_NAMES) expect(USAGE).toContain(`glovebox ${name}`);
  });
});

describe("a command", () => {
  test.for(COMMAND_NAMES)("%s rejects unknown options and names of Object.prototype", async (command) => {
    for (const flag of ["--bogus", "--__proto__", "--constructor", "--toString=1", "-x", "-xyz", "---"]) {
      expectUsageError(
        await glovebox(command, ...POSITIONALS[command], flag),
        `Unknown option "${flag.split("=")[0]}"`,
      );
    }
  });

  test("names the present name of a renamed option", async () => {
    expectUsageError(
      await glovebox("run", "a.ts", "--log-places"),
      'Unknown option "--log-places" of run. It is now called --log-source-locations',
    );
  });

  test.for(COMMAND_NAMES)("%s rejects missing, empty and extra arguments", async (command) => {
    const { min, max } = COMMAND_SPECS[command].positionals;
    expectUsageError(await glovebox(command, ""), "Expected");
    if (min > 0) expectUsageError(await glovebox(command), "got nothing");
    if (max === Number.POSITIVE_INFINITY) return;
    expectUsageError(
      await glovebox(command, ...Array.from({ length: max + 1 }, (_, index) => `a${index}`)),
      `"a${max}"`,
    );
  });

  test.for(COMMAND_NAMES)("%s is suggested for a misspelling, and options before it are rejected", async (command) => {
    expectUsageError(await glovebox(`${command}x`), `Did you mean ${command}?`);
    expectUsageError(await glovebox("--tenant", "a", command), 'got the option "--tenant"');
  });

  test.for<[args: readonly string[], message: string]>([
    [["run", "a.ts", "--input", "{}", "--input-file", "b.json"], "Expected one of --input, --input-file and -"],
    [["run", "a.ts", "-", "--input", "{}"], "Expected one of --input, --input-file and -"],
    [["call", "add", "--input", "{}", "--input-file", "b.json"], "Expected one of --input and --input-file, got both"],
    [
      ["replay", "call_1", "--input-file", "no-such-file.json"],
      "--input-file no-such-file.json: there is no such file",
    ],
    [["run", "a.ts", "-", "-"], "-: expected at most once"],
    [["dev", "a.ts", "--inspect", "--inspect-brk"], "Expected one of --inspect and --inspect-brk"],
    [["mcp"], "Expected the PATH of a tool, --tool NAME or --mcp NAME=COMMAND_OR_URL"],
    [["mcp", "a.ts", "--host", "127.0.0.1"], "expected --http PORT as well"],
    [["mcp", "a.ts", "--allow-host", "a.test"], "expected --http PORT as well"],
    [["mcp", "a.ts", "--http", "0", "--host", "0.0.0.0"], "expected --allow-host"],
    [["mcp", "a.ts", "--http", "0", "--host", "::"], "expected --allow-host"],
    [["mcp", "a.ts", "--http", "0", "--host", "*"], "--host: expected a host name"],
    [["mcp", "--tool", "nope"], "--tool: expected one of"],
    [["run", "a.ts", "--secret", "KEY"], "--secret"],
    [["run", "a.ts", "--allow-fetch", "a.test", "--secret", "=HOME"], "--secret: expected NAME=ENV"],
    [["run", "a.ts", "--allow-fetch", "a.test", "--secret", "KEY="], "--secret: expected NAME=ENV"],
    [["run", "a.ts", "--tenant", "x".repeat(1_025)], "--tenant: expected an id"],
    [["help", "rnu"], "help: expected the name of a command"],
    [["--version", "run"], "--version takes no arguments"],
  ])("%j is an error", async ([args, message]) => {
    expectUsageError(await glovebox(...args), message);
  });

  test.for([
    ["GLOVEBOX_EXECUTOR_SLOTS", "99999", "expected a whole number from 1 to 2048"],
    ["GLOVEBOX_MAX_WORKERS", "0", "expected a whole number from 1 to 1024"],
    ["GLOVEBOX_DRAIN_MS", "1e9", "expected a whole number from 0 to 300000"],
    ["GLOVEBOX_EXECUTOR_POOL", "EU", "expected the name of a pool"],
  ] as const)("executor names the variable %s if its value is %s", async ([name, value, expected]) => {
    const end = await gloveboxWith({ [name]: value }, "executor", "--nats", "nats://127.0.0.1:1");
    expectUsageError(end, `${name}: ${expected}`);
    expect(end.stderr).toContain(`got "${value}"`);
  });

  test.for(COMMAND_NAMES)("%s --help prints how the command is called, and each of its options", async (command) => {
    const help = await glovebox(command, "--help");
    expect(help).toMatchObject({ code: 0, stderr: "" });
    expect(await glovebox("help", command)).toEqual(help);
    expect(help.stdout).toMatch(new RegExp(`^Usage\\n  glovebox ${command}\\b`));
    for (const other of COMMAND_NAMES.filter((name) => name !== command))
      expect(help.stdout).not.toMatch(new RegExp(`^  glovebox ${other} `, "m"));
    for (const option of Object.keys(COMMAND_SPECS[command].options)) expect(help.stdout).toContain(`--${option}`);
  });

  test("call --help and runs --help describe the version that they run", async () => {
    for (const command of ["call", "runs"]) {
      const { stdout } = await glovebox(command, "--help");
      expect(stdout).toContain("the version to run (default: that of the release)");
      expect(stdout).not.toContain("rehearse");
    }
    expect((await glovebox("rehearse", "--help")).stdout).toContain("the version to replay or rehearse");
  });

  test("prints the whole help on stdout without a command, and none after --", async () => {
    for (const args of [["--help"], ["help"], ["help", "--help"], ["-h"]])
      expect(await glovebox(...args)).toEqual({ code: 0, stdout: `${USAGE}\n`, stderr: "" });
    expectUsageError(await glovebox("init", "--", "--help"), "Expected a name");
  });
});
