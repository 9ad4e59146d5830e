// Runs the examples that need nothing but Glovebox, each as a process, and compares what they print.
import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { describe, expect, onTestFinished, test } from "vitest";
import { cliEnvironment } from "../support/cli-process.ts";
import { EXAMPLE_TIMEOUT_MS, exampleArgs, runExample, TEST_TIMEOUT_MS, useHome } from "../support/example-process.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const home = useHome();

/** Parts of the output of each program, in order, with other text between. */
const PRINTED: readonly (readonly [path: string, lines: readonly (string | RegExp)[]])[] = [
  [
    "library-host.ts",
    [
      "info: price of A1 is 9.5",
      'quote returned {"total":38}',
      /quote failed with PARAM_INVALID: .*count/,
      /quote failed with TOOL_FAILED: .*B2/,
      "loop failed with CPU_LIMIT",
      "missing failed with TOOL_UNAVAILABLE",
    ],
  ],
  [
    "notebook.ts",
    [
      "[1] 3",
      "log: sum 100",
      "[2] 33.3",
      "[3] TOOL_FAILED",
      "cell-3.ts:2:",
      '[4] {"checked":true,"total":100}',
      "[5] 100",
      "[6] CPU_LIMIT",
      "[7] TOOL_UNAVAILABLE",
      "The session is over",
    ],
  ],
  [
    "mcp-client.ts",
    [
      "publish: Publishes a post",
      "text__slugify: Turns a title into a URL slug",
      '{"slug":"hello-world"}',
      '"/posts/creme-brulee-at-home"',
      /TOOL_FAILED: .*no letters or digits/,
      /PARAM_INVALID: .*title/,
      "Server text is connected",
    ],
  ],
  [
    "python-tool/host.ts",
    [
      "summarize: Summarizes numbers",
      '{"mean":5.6,"median":5,"spread":3.2,"runs":1}',
      "log: 1 outliers ignored",
      '{"mean":5.6,"median":5,"spread":3.2,"runs":2}',
      /TOOL_FAILED: .*at least two numbers/,
      /tool\.py:\d+/,
      /PARAM_INVALID: .*numbers/,
    ],
  ],
];

/** The first of the parts that does not follow the ones before it in the text; undefined if all do. */
function firstMissing(text: string, parts: readonly (string | RegExp)[]): string | RegExp | undefined {
  let rest = text;
  return parts.find((part) => {
    const at = typeof part === "string" ? rest.indexOf(part) : rest.search(part);
    if (at >= 0) rest = rest.slice(at + 1);
    return at < 0;
  });
}

describe("an example", () => {
  test.for(PRINTED)("%s prints what it shows", { timeout: TEST_TIMEOUT_MS }, async ([path, lines]) => {
    const { code, stdout, stderr } = await runExample(path, home());
    expect({ code, stderr, missing: firstMissing(stdout, lines), stdout }).toEqual({
      code: 0,
      stderr: "",
      stdout,
      missing: undefined,
    });
  });

  test("mcp-server.ts serves a client of the MCP SDK", { timeout: TEST_TIMEOUT_MS }, async () => {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [...exampleArgs("mcp-server.ts")],
      cwd: ROOT,
      stderr: "ignore",
      env: { HOME: home(), NODE_COMPILE_CACHE: cliEnvironment(home()).NODE_COMPILE_CACHE ?? "" },
    });
    const client = new Client({ name: "test", version: "1.0.0" });
    onTestFinished(() => client.close());
    const patient = { timeout: EXAMPLE_TIMEOUT_MS };
    await client.connect(transport, patient);
    expect(client.getServerVersion()).toMatchObject({ name: "text-tools" });
    const { tools } = await client.listTools(undefined, patient);
    expect(tools.map(({ name }) => name).sort()).toEqual(["count-words", "slugify"]);
    const counted = await client.callTool({ name: "count-words", arguments: { text: "to be or not" } }, patient);
    expect(counted.content).toEqual([{ type: "text", text: "4" }]);
    const failed = await client.callTool({ name: "slugify", arguments: { title: "???" } }, patient);
    expect(failed).toMatchObject({ isError: true });
  });
});

describe("the table in examples/README.md", () => {
  const readme = readFileSync(`${ROOT}/examples/README.md`, "utf8");
  const programs = globSync("examples/**/*.ts", { cwd: ROOT })
    .map((path) => path.replaceAll("\\", "/").replace("examples/", ""))
    .filter((path) => path !== "from-source.ts");

  test.for(programs)("has a row for %s with its command", (path) => {
    expect(readme).toMatch(new RegExp(`^\\| \\[[\\w-]+\\]\\(${path}\\) \\|.*npm run example -- examples/${path}`, "m"));
  });

  test.for(programs)("%s says in its header how it is run, and has 20 to 120 lines", (path) => {
    const text = readFileSync(`${ROOT}/examples/${path}`, "utf8");
    expect(text).toMatch(new RegExp(`^(?://.*\n)+// Run: .*node ${path}`));
    const { length } = text.trimEnd().split("\n");
    expect(length).toBeGreaterThanOrEqual(20);
    expect(length).toBeLessThanOrEqual(120);
  });
});
