// The command line as a person meets it: its exit code, and every word it says. What is about the process is tested in a real one, the
// rest in this process.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type CliEnd, enterFolder, runInProcess } from "../support/cli-in-process.ts";
import { cliEnvironment, MAIN, NodeProcess, patiently } from "../support/cli-process.ts";

const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url));
let folder = "";
let leave: () => Promise<void>;

const glovebox = (args: readonly string[], stdin?: string): Promise<CliEnd> => runInProcess(args, { stdin });

async function gloveboxProcess(args: readonly string[], stdin = ""): Promise<CliEnd> {
  const child = spawn(process.execPath, [MAIN, ...patiently(args)], { cwd: folder, env: cliEnvironment(folder) });
  child.stdin.end(stdin);
  const exit = new Promise<number | null>((resolve) => child.on("exit", resolve));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), exit]);
  return { code, stdout, stderr };
}

const SOURCES: { readonly [file: string]: string } = {
  "add.ts": `
    import { defineTool } from "glovebox/tool";
    export default defineTool({
      name: "add",
      description: "Adds",
      inputSchema: {
        type: "object",
        properties: { a: { type: "number" }, b: { type: "number" } },
        required: ["a", "b"],
        additionalProperties: false,
      },
      execute: ({ a, b }) => ({ sum: a + b }),
    });`,
  "shows.ts": `
    import { content, image, text } from "glovebox/tool";
    export default () => content([text("hi"), image(new Uint8Array([104, 105]), "image/png")], new Uint8Array([1]));`,
  "counts.ts": "export default async function* () { yield 1; yield 2; return { counted: 2 }; }",
  "waits.ts": "export default async function* () { yield 1; await new Promise(() => {}); }",
  "late.ts": "export default () => new Promise((resolve) => setTimeout(() => resolve('late'), 5_500));",
  "shout.ts": `
    export const description = "Shouts";
    export const inputSchema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
    export default ({ text }: { text: string }) => text.toUpperCase();`,
  "boom.ts": `function inner(n: number): number {
  throw new TypeError("no " + n);
}

export default ({ n }: { n: number }) => inner(n);`,
  "logs.ts": `export default (_input: unknown, ctx: any) => {
    console.warn("careful %s", { deep: [1] });
    ctx.log("structured", { n: 1 });
    console.log("\\u001b[31mred");
    return null;
  };`,
  "syntax.ts": "export default () => {\n  const = 1;\n}",
  "builtin.ts": 'import { readFileSync } from "node:fz";\nexport default () => readFileSync("/etc/passwd", "utf8");',
  "missing.ts": 'import { x } from "./nowhere.ts";\nexport default () => x;',
  "none.ts": "export const description = 'nothing to run';",
  "throws.ts": 'throw new Error("at the top");\nexport default () => 1;',
  "spins.ts": "while (true) {}\nexport default () => 1;",
  "spinning.ts": "export default () => { console.log('spinning'); while (true) {} };",
  "loop.ts": "export default () => { while (true) {} };",
  "hog.ts": "export default () => { const all = []; for (;;) all.push('x'.repeat(1000) + all.length); };",
  "bigint.ts": "export default () => 1n;",
  "text.txt": "quiet words",
  "input.json": '{"a":20,"b":22}',
  "broken.json": '{"a":20,',
};

beforeAll(async () => {
  ({ folder, leave } = await enterFolder(SOURCES));
});
afterAll(() => leave());

describe("glovebox run", () => {
  test("prints the output as JSON, and nothing else, on stdout", async () => {
    expect(await gloveboxProcess(["run", "add.ts", "--input", '{"a":1,"b":2}'])).toEqual({
      code: 0,
      stdout: '{"sum":3}\n',
      stderr: "",
    });
  });

  test("takes its input from a file, a text file and stdin", async () => {
    expect((await glovebox(["run", "add.ts", "--input-file", "input.json"])).stdout).toBe('{"sum":42}\n');
    expect((await glovebox(["run", "shout.ts", "--input-file", "text.txt"])).stdout).toBe('"QUIET WORDS"\n');
    expect((await gloveboxProcess(["run", "add.ts", "-"], '{"a":2,"b":2}')).stdout).toBe('{"sum":4}\n');
  });

  test("gives a call more than the 5 s of the library, because its process may start on a busy machine", async () => {
    await using run = new NodeProcess([MAIN, "run", "late.ts"], { cwd: folder, env: cliEnvironment(folder) });
    await run.exit;
    expect(run).toMatchObject({ stdout: '"late"\n', stderr: "" });
  });

  test("prints the chunks of a tool that streams as they come, then what it returns", async () => {
    expect((await glovebox(["run", "counts.ts"])).stdout).toBe('1\n2\n{"counted":2}\n');
    expect(JSON.parse((await glovebox(["run", "waits.ts", "--json", "--timeout-ms", "500"])).stdout)).toMatchObject({
      success: false,
      error: { code: "TOOL_TIMEOUT" },
    });
    const child = spawn(process.execPath, [MAIN, ...patiently(["run", "waits.ts"])], {
      cwd: folder,
      env: cliEnvironment(folder),
    });
    const exit = once(child, "exit");
    const [first] = await once(child.stdout, "data");
    expect(String(first)).toBe("1\n");
    child.kill("SIGINT");
    expect((await exit)[0]).toBe(130);
  });

  test("prints content in addition to the output, and bytes as base64", async () => {
    const { code, stdout } = await glovebox(["run", "shows.ts"]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      output: "AQ==",
      content: [
        { type: "text", text: "hi" },
        { type: "image", data: "aGk=", mimeType: "image/png" },
      ],
    });
    const whole = await glovebox(["run", "shows.ts", "--json"]);
    expect(JSON.parse(whole.stdout)).toMatchObject({ success: true, output: "AQ==" });
  });

  test("shows an error with the author's line and a caret", async () => {
    const { code, stdout, stderr } = await glovebox(["run", "boom.ts", "--input", '{"n":7}']);
    expect(code).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toContain("TOOL_FAILED: no 7");
    expect(stderr).toContain('> 2 |   throw new TypeError("no " + n);\n      |         ^');
    expect(stderr).toContain("at inner (boom.ts:2:9)");
    expect(stderr).not.toContain(folder);
    expect(stderr).not.toContain("\u001b");
  });

  test("shows the line of what fails before there is a call", async () => {
    const { stderr } = await glovebox(["run", "throws.ts"]);
    expect(stderr).toContain('> 1 | throw new Error("at the top");\n      |       ^');
    const inspected = await glovebox(["inspect", "throws.ts"]);
    expect(inspected.stderr).toContain('> 1 | throw new Error("at the top");');
  });

  test("--json tells file, line and column of an error", async () => {
    const failed = await glovebox(["run", "boom.ts", "--input", '{"n":7}', "--json"]);
    expect(JSON.parse(failed.stdout)).toMatchObject({ error: { details: { file: "boom.ts", line: 2, column: 9 } } });
    const unbuilt = await glovebox(["run", "syntax.ts", "--json"]);
    expect(JSON.parse(unbuilt.stdout)).toMatchObject({ error: { details: { file: "syntax.ts", line: 2, column: 9 } } });
  });

  test("--log-source-locations shows where console was called", async () => {
    const { stderr } = await glovebox(["run", "logs.ts", "--log-source-locations"]);
    expect(stderr).toContain("warn  logs.ts:2:13 careful { deep: [Array] }\n");
  });

  test("shows logs as text that cannot steer the terminal", async () => {
    const { stdout, stderr } = await glovebox(["run", "logs.ts"]);
    expect(stdout).toBe("null\n");
    expect(stderr).toContain("warn  careful { deep: [Array] }\n");
    expect(stderr).toContain('info  structured {"n":1}\n');
    expect(stderr).not.toContain("\u001b");
  });

  test("--json prints the whole result as one line", async () => {
    const { code, stdout } = await glovebox(["run", "logs.ts", "--json"]);
    expect(code).toBe(0);
    expect(stdout.trimEnd().split("\n")).toHaveLength(1);
    expect(JSON.parse(stdout)).toMatchObject({
      success: true,
      callId: "cli",
      toolName: "logs",
      output: null,
      logs: [{ level: "warn" }, { message: "structured", data: { n: 1 } }, {}],
    });
  });

  test("--time tells where the milliseconds went", async () => {
    const { stderr } = await glovebox(["run", "add.ts", "--input", '{"a":1,"b":2}', "--time"]);
    for (const step of ["bundle", "definition", "queue", "start", "execute", "CPU", "memory"]) {
      expect(stderr).toMatch(new RegExp(`^${step} +\\d+\\.\\d (ms|MiB)$`, "m"));
    }
  });

  test("SIGINT ends the call and its tool", async () => {
    const child = spawn(process.execPath, [MAIN, "run", "spinning.ts", "--timeout-ms", "60000"], { cwd: folder });
    const exit = new Promise<number | null>((resolve) => child.on("exit", resolve));
    // Its first line of log says that the tool is running.
    const [line] = await once(child.stderr.setEncoding("utf8"), "data");
    child.kill("SIGINT");
    expect(line).toBe("info  spinning\n");
    expect(await exit).toBe(130);
  });
});

describe("a mistake gets its exit code and a message that helps", () => {
  test.for<[name: string, args: string[], code: number, message: RegExp, stdin?: string]>([
    ["no command", [], 2, /Usage/],
    ["an unknown command", ["runn"], 2, /There is no command "runn"\. Did you mean run\?/],
    [
      "an unknown option",
      ["run", "add.ts", "--bogus"],
      2,
      /Unknown option "--bogus" of run\. Expected one of --input, /,
    ],
    ["no path", ["run"], 2, /Expected PATH of a tool, got nothing/],
    ["two paths", ["run", "add.ts", "boom.ts"], 2, /also got "boom.ts"/],
    ["two inputs", ["run", "add.ts", "--input", "{}", "-"], 2, /Expected one of --input, --input-file and -/],
    ["input that is not JSON", ["run", "add.ts", "--input", "{a:1}"], 2, /--input is not JSON/],
    [
      "an integer that would be sent as another one",
      ["run", "add.ts", "--input", '{"a":9007199254740993}'],
      2,
      /--input: 9007199254740993 would be sent as 9007199254740992/,
    ],
    ["a file that is not JSON", ["run", "add.ts", "--input-file", "broken.json"], 2, /broken\.json is not JSON/],
    ["a text for a tool that takes none", ["run", "add.ts", "--input-file", "text.txt"], 2, /text\.txt is not JSON/],
    ["a missing file", ["run", "add.ts", "--input-file", "gone.json"], 2, /there is no such file/],
    ["stdin that is not JSON", ["run", "add.ts", "-"], 2, /stdin is not JSON/, "nope"],
    [
      "a limit that is not a number",
      ["run", "add.ts", "--timeout-ms", "soon"],
      2,
      /--timeout-ms: expected a whole number/,
    ],
    [
      "a limit out of range",
      ["run", "add.ts", "--memory-mib", "1"],
      2,
      /--memory-mib: expected .* from 8 to 2048, got "1"/,
    ],
    ["an empty tenant", ["run", "add.ts", "--tenant", ""], 2, /--tenant: expected an id/],
    ["a path that is not there", ["run", "gone.ts"], 2, /BUNDLE_FAILED: There is no file or folder "gone\.ts"/],
    ["a syntax error", ["run", "syntax.ts"], 2, /BUNDLE_FAILED: syntax\.ts:2:9: [\s\S]*> 2 \| {3}const = 1;/],
    ["a built-in that Node does not have", ["run", "builtin.ts"], 2, /builtin\.ts:1:30: Cannot import "node:fz"/],
    ["a missing import", ["run", "missing.ts"], 2, /missing\.ts:1:19: .*nowhere\.ts/],
    ["no default export", ["run", "none.ts"], 2, /BUNDLE_FAILED: .*none\.ts.*default export/],
    ["a top level that throws", ["run", "throws.ts"], 1, /TOOL_FAILED: at the top[\s\S]*throws\.ts:1:7/],
    ["a top level that loops", ["run", "spins.ts", "--timeout-ms", "300"], 1, /TOOL_TIMEOUT: .*within 300 ms/],
    [
      "input of the wrong type",
      ["run", "add.ts", "--input", '{"a":1,"b":"2"}'],
      1,
      /PARAM_INVALID: .*\/b: .*number.*string/,
    ],
    ["a missing and an unknown key", ["run", "add.ts", "--input", '{"a":1,"c":2}'], 1, /PARAM_INVALID: .*"b".*"c"/],
    [
      "an endless loop",
      ["run", "loop.ts", "--timeout-ms", "300"],
      1,
      /TOOL_TIMEOUT: (?:loop|The top level of loop\.ts) did not finish within 300 ms/,
    ],
    [
      "too much CPU",
      ["run", "loop.ts", "--cpu-ms", "1000", "--timeout-ms", "60000"],
      1,
      /CPU_LIMIT: loop used more than 1000 ms/,
    ],
    [
      "too much memory",
      ["run", "hog.ts", "--memory-mib", "16", "--timeout-ms", "60000"],
      1,
      /MEMORY_LIMIT|SANDBOX_CRASHED/,
    ],
    ["an output that is not JSON", ["run", "bigint.ts"], 1, /OUTPUT_INVALID: Expected a JSON value, got a BigInt/],
    ["inspect without a path", ["inspect"], 2, /Expected PATH of a tool, got nothing/],
    ["inspect of a file that is not a tool", ["inspect", "none.ts"], 2, /default export/],
    ["init without a name", ["init"], 2, /Expected NAME for the tool, got nothing/],
    ["init with a bad name", ["init", "a b"], 2, /Expected a name of 1 to 128/],
  ])("%s", async ([, args, code, message, stdin]) => {
    const end = await glovebox(args, stdin);
    expect(`${end.stdout}${end.stderr}`).toMatch(message);
    expect(end.code).toBe(code);
    expect(end.stderr).not.toContain(folder);
    expect(end.stderr).not.toContain(REPOSITORY);
    expect(end.stderr).not.toMatch(/node:internal/);
  });
});

describe("glovebox init", () => {
  test("writes a tool that works, and never writes over one", async () => {
    const made = await glovebox(["init", "word-count"]);
    expect(made).toMatchObject({ code: 0, stderr: "" });
    const run = await glovebox(["run", "word-count", "--input-file", "word-count/example.json"]);
    expect(JSON.parse(run.stdout)).toEqual({
      words: [
        { word: "the", count: 3 },
        { word: "dog", count: 2 },
        { word: "quick", count: 1 },
      ],
    });
    const again = await glovebox(["init", "word-count"]);
    expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining("already contains a tool") });
  });
});

describe("glovebox inspect", () => {
  test("shows definition, imports and sizes without running execute", async () => {
    const { code, stdout } = await glovebox(["inspect", "add.ts"]);
    expect(code).toBe(0);
    expect(stdout).toContain("add: Adds");
    expect(stdout).toContain('"additionalProperties": false');
    expect(stdout).toMatch(/sha256 [0-9a-f]{64}/);
  });

  test("--json is one object", async () => {
    const { stdout } = await glovebox(["inspect", "boom.ts", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({
      definition: { name: "boom", inputSchema: { type: "object" } },
      bundle: { entry: "boom.ts", exports: ["default"], packages: [], dynamicCode: [] },
    });
  });

  test("names the packages and files that use dynamic code", async () => {
    await writeFile(join(folder, "dynamic.ts"), "export default ({ text }) => new Function(text)();");
    const [text, json] = await Promise.all([
      glovebox(["inspect", "dynamic.ts"]),
      glovebox(["inspect", "dynamic.ts", "--json"]),
    ]);
    expect(text.stdout).toMatch(/Uses dynamic code .*stringToCode.*\n {2}dynamic\.ts\n/);
    expect(JSON.parse(json.stdout)).toMatchObject({ bundle: { dynamicCode: ["dynamic.ts"] } });
    expect((await glovebox(["inspect", "add.ts"])).stdout).not.toContain("dynamic code");
  });
});

test("glovebox --version tells the package's version, and --help the usage", async () => {
  expect((await gloveboxProcess(["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect(await glovebox(["--help"])).toMatchObject({ code: 0, stdout: expect.stringContaining("Exit codes") });
});
