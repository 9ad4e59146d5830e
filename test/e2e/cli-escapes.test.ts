// Text that the command line did not write itself (arguments, inputs, names of files and folders, the environment, everything of a tool)
// cannot control the terminal that shows it: in every command, in a pipe and in a real terminal.
import { execFile, spawnSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { enterFolder, runInProcess } from "../support/cli-in-process.ts";
import { CliProcess, cliEnvironment, MAIN } from "../support/cli-process.ts";

/** Clears the screen, sets the title, reorders and hides text. */
const EVIL = "\u001b[2J\u001b]0;owned\u0007\u009b31m\u202eevil\u2066\u{e0041}\u200b\rover";
const UNSAFE = /[^\P{Cc}\n\t]|[\u200b\u202a-\u202e\u2066-\u2069\u2028\u2029]|[\u{e0000}-\u{e01ef}]/u;
/** In a source text, as an escape of JavaScript: the tool makes the characters when it runs. */
const EVIL_JS = JSON.stringify(EVIL).replace(
  /[^ -~]/g,
  (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
);
const NAME = `a${EVIL}b`;

const SOURCES: { readonly [file: string]: string } = {
  "output.ts": `const evil = ${EVIL_JS};\nexport default () => ({ [evil]: evil });`,
  "chunks.ts": `const evil = ${EVIL_JS};\nexport default async function* () { yield evil; yield { [evil]: evil }; }`,
  "logs.ts": `const evil = ${EVIL_JS};
    export default (_input: unknown, ctx: any) => { console.error(evil); ctx.log(evil, { [evil]: evil }); return 1; };`,
  "throws.ts": `export default () => {
  const error = new Error(${EVIL_JS}); error.name = ${EVIL_JS}; error.stack = "Error\\n    at " + ${EVIL_JS}; throw error; };`,
  "top.ts": `throw new Error(${EVIL_JS});\nexport default () => 1;`,
  "syntax.ts": `export default () => {\n  const /*${EVIL}*/ = 1;\n}`,
  "import.ts": `import x from "./${EVIL.replace("\r", "")}.ts";\nimport y from "no-such-${EVIL.replace("\r", "")}";\nexport default () => x + y;`,
  "described.ts": `const evil = ${EVIL_JS};
    export const description = "One */ export const x = 1; /*" + evil + "\\n*/";
    export const inputSchema = { type: "object", description: "*/" + evil, properties: {
      [evil + "*/"]: { description: evil + "*/\\n export const y = 1;", enum: [evil, "*/"] } } };
    export const outputSchema = { const: evil };
    export default () => evil;`,
  [`${NAME}.json`]: `{"a":${EVIL}`,
};

let folder = "";
let leave: () => Promise<void>;
beforeAll(async () => {
  ({ folder, leave } = await enterFolder(SOURCES));
  await mkdir(NAME);
  await mkdir(join("tools", NAME), { recursive: true });
  await writeFile(join("tools", NAME, "tool.ts"), "export default (");
});
afterAll(() => leave());

/** More than a busy machine takes for any tool here. */
const SLOW = ["--timeout-ms", "60000"];
const ENVIRONMENT = { EVIL, GLOVEBOX_DEBUG: "1" };

const CASES: readonly (readonly [what: string, args: readonly string[], stdin?: string])[] = [
  ["a command", [NAME]],
  ["an option", ["run", `--${NAME}`]],
  ["a value of an option", ["run", "output.ts", "--timeout-ms", NAME]],
  ["a host", ["run", "output.ts", "--allow-fetch", NAME]],
  ["a secret", ["run", "output.ts", "--allow-fetch", "a.test", "--secret", `${NAME}=EVIL`]],
  ["a variable of the environment", ["run", "output.ts", "--allow-fetch", "a.test", "--secret", `KEY=${NAME}`]],
  ["a capability", ["run", "output.ts", "--grant", NAME]],
  ["a tenant", ["run", "throws.ts", "--tenant", NAME]],
  ["a port", ["dev", "output.ts", `--inspect=${NAME}`]],
  ["a built-in tool", ["mcp", "--tool", NAME]],
  ["an address", ["mcp", "output.ts", "--http", "0", "--host", NAME]],
  ["an extra argument", ["run", "output.ts", NAME]],
  ["input of an option", ["run", "output.ts", "--input", `{${EVIL}`]],
  ["input of stdin", ["run", "output.ts", "-"], `{"a":${EVIL}`],
  ["input of a file, and its name", ["run", "output.ts", "--input-file", `${NAME}.json`]],
  ["a missing input file", ["run", "output.ts", "--input-file", `${NAME}.txt`]],
  ["input of the wrong type", ["run", "described.ts", "--input", JSON.stringify({ [`${EVIL}*/`]: EVIL }), ...SLOW]],
  ["a missing tool", ["run", NAME]],
  ["a folder without a tool", ["inspect", NAME]],
  ["a folder without tools", ["types", NAME]],
  ["the folder of a broken tool", ["types", "tools"]],
  ["a folder without tests", ["test", NAME]],
  ["a file to write", ["types", "output.ts", "--out", `${NAME}/${NAME}/x.d.ts`]],
  ["the folder of a new tool", ["init", `${NAME}/fine`]],
  ["the name of a new tool", ["init", NAME]],
  ["chunks", ["run", "chunks.ts", ...SLOW]],
  ["logs", ["run", "logs.ts", "--log-source-locations", ...SLOW]],
  ["logs in a result", ["run", "logs.ts", "--json", ...SLOW]],
  ["an error of a tool", ["run", "throws.ts", ...SLOW]],
  ["an error in a result", ["run", "throws.ts", "--json", ...SLOW]],
  ["an error of a top level", ["inspect", "top.ts"]],
  ["an error of a top level as JSON", ["inspect", "top.ts", "--json"]],
  ["source text next to a syntax error", ["run", "syntax.ts"]],
  ["names of modules", ["run", "import.ts"]],
  ["a definition", ["inspect", "described.ts"]],
  ["a definition as JSON", ["inspect", "described.ts", "--json"]],
];

/** Runs a command line and sees that nothing that it prints is unsafe. */
async function printed(args: readonly string[], stdin?: string): Promise<string> {
  const { stdout, stderr } = await runInProcess(args, { stdin, env: ENVIRONMENT });
  expect(stdout + stderr).not.toBe("");
  expect(stdout).not.toMatch(UNSAFE);
  expect(stderr).not.toMatch(UNSAFE);
  if (args.includes("--json")) JSON.parse(stdout);
  return stdout;
}

describe("text of others cannot control the terminal", () => {
  test.for(CASES)("%s", async ([, args, stdin]) => {
    await printed(args, stdin);
  });

  test("the JSON of an output is safe, and has the value that the tool returned", async () => {
    expect(JSON.parse(await printed(["run", "output.ts", ...SLOW]))).toEqual({ [EVIL]: EVIL });
    expect(JSON.parse(await printed(["run", "output.ts", "--json", ...SLOW]))).toMatchObject({
      output: { [EVIL]: EVIL },
    });
  });

  test("glovebox dev escapes paths, logs and errors", async () => {
    await writeFile(join(folder, NAME, "tool.ts"), SOURCES["logs.ts"] ?? "");
    await using dev = new CliProcess(["dev", NAME, "--input-file", `${NAME}.json`], folder);
    await dev.says("stderr", /is not JSON: [\s\S]*Waiting for changes\n/);
    expect(dev.stderr).not.toMatch(UNSAFE);
  });

  test("types of hostile definitions are types, in visible characters", async () => {
    const types = await printed(["types", "described.ts"]);
    expect(types.split("\n").filter((line) => /^\s*export (?!type |interface )/.test(line))).toEqual([]);
  });
});

const hasPython = spawnSync("python3", ["-c", "import pty"]).status === 0;

describe("a real terminal", () => {
  /** Runs the command in a pseudo terminal and returns the bytes that it would show. */
  async function inTerminal(...args: readonly string[]): Promise<string> {
    const script = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    const env = { ...cliEnvironment(folder), PATH: process.env.PATH, TERM: "xterm-256color" };
    const command = promisify(execFile)("python3", ["-c", script, process.execPath, MAIN, ...args], {
      cwd: folder,
      env,
    });
    command.child.stdin?.end();
    return await command.then(
      ({ stdout }) => stdout,
      (failed: { readonly stdout: string }) => failed.stdout,
    );
  }

  // biome-ignore lint/suspicious/noControlCharactersInRegex: the colors that the command line itself writes
  const withoutColors = (shown: string): string => shown.replace(/\u001b\[\d+(?:;\d+)*m/g, "").replaceAll("\r\n", "\n");

  test.skipIf(!hasPython)(
    "has colors and indented JSON, and nothing of a tool (needs python3 for its terminal)",
    async () => {
      const failed = await inTerminal("run", "throws.ts", ...SLOW);
      expect(failed).toContain("\u001b[1mTOOL_FAILED");
      expect(withoutColors(failed)).not.toMatch(UNSAFE);
      const logged = await inTerminal("run", "logs.ts", ...SLOW);
      expect(logged).toContain("\u001b[31merror");
      expect(withoutColors(logged)).not.toMatch(UNSAFE);
      // A tool that writes the sequences of colors gets none through.
      expect(logged).not.toContain("\u009b31m");
      const shown = await inTerminal("run", "output.ts", ...SLOW);
      expect(shown).not.toContain("\u001b");
      expect(JSON.parse(shown)).toEqual({ [EVIL]: EVIL });
    },
  );
});
