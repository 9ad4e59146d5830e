// `glovebox mcp --mcp … --code-mode` as an MCP client starts it, with real servers behind it.
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { enterFolder } from "../support/cli-in-process.ts";
import { cliEnvironment, MAIN } from "../support/cli-process.ts";

/** Longest time of a request, of which some start an interpreter without its caches. */
const PATIENT = { timeout: 300_000 } as const;
const require = createRequire(import.meta.url);
const serverOf = (name: string): string =>
  `${JSON.stringify(process.execPath)} ${JSON.stringify(require.resolve(`@modelcontextprotocol/server-${name}/dist/index.js`))}`;

let folder = "";
beforeAll(async () => {
  const entered = await enterFolder({});
  folder = entered.folder;
  await mkdir(join(folder, "some files"));
  for (const [name, total] of [
    ["may", 40],
    ["june", 2],
  ] as const) {
    await writeFile(join(folder, "some files", `${name}.json`), JSON.stringify({ total }));
  }
  // With a host that is root, the servers run as another user.
  await chmod(folder, 0o755);
  return () => entered.leave();
});

interface Started {
  readonly client: Client;
  readonly errors: () => string;
}

async function start(...args: readonly string[]): Promise<Started> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [MAIN, "mcp", "--timeout-ms", "300000", ...args],
    cwd: folder,
    env: cliEnvironment(folder) as Record<string, string>,
    stderr: "pipe",
  });
  let errors = "";
  transport.stderr?.on("data", (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const client = new Client({ name: "test", version: "1.0.0" });
  await client.connect(transport as never, PATIENT);
  onTestFinished(() => client.close());
  return { client, errors: () => errors };
}

type Output = { readonly status: string; readonly value?: unknown; readonly diagnostics?: readonly object[] };

async function runCode({ client }: Started, code: string, language?: string): Promise<Output> {
  const result = await client.callTool(
    { name: "run_code", arguments: { code, ...(language === undefined ? {} : { language }) } },
    PATIENT,
  );
  return result.structuredContent as never;
}

test("turns several servers into two tools, and code into calls of all of them", async () => {
  const started = await start(
    "--mcp",
    `files=${serverOf("filesystem")} "${join(folder, "some files")}"`,
    "--mcp",
    `every=${serverOf("everything")}`,
    "--mcp",
    "broken=/no/such/program",
    "--code-mode",
  );
  const { client } = started;
  expect((await client.listTools(undefined, PATIENT)).tools.map(({ name }) => name)).toEqual([
    "run_code",
    "search_tools",
  ]);
  const found = await client.callTool(
    { name: "search_tools", arguments: { query: "read the content of a text file" } },
    PATIENT,
  );
  expect(JSON.stringify(found.content)).toContain("tools.files.read_text_file(input: {");
  const code = `const folder = ${JSON.stringify(join(folder, "some files"))};
    const texts = await Promise.all(["may", "june"].map((name) => tools.files.read_text_file({ path: folder + "/" + name + ".json" })));
    const totals = texts.map((text) => JSON.parse((text as { content: string }).content).total);
    const { sum } = { sum: totals.reduce((all, one) => all + one, 0) };
    const echoed = await tools.every.echo({ message: String(sum) });
    return [sum, JSON.stringify(echoed).includes("42")];`;
  expect(await runCode(started, code)).toMatchObject({ status: "ok", value: [42, true] });
  expect(await runCode(started, "return await tools.every.echo({ message: 1 })")).toMatchObject({
    status: "rejected",
    diagnostics: [{ code: "TS2322" }],
  });
  expect(await runCode(started, "r = await tools.every.echo(message='hi')\n'hi' in str(r)", "python")).toMatchObject({
    status: "ok",
    value: true,
  });
  expect(started.errors()).toContain("the MCP server broken is not available");
});

test("serves the tools of servers as they are, without code mode", async () => {
  const { client } = await start("--mcp", `memory=${serverOf("memory")}`, "--mcp", `every=${serverOf("everything")}`);
  const names = (await client.listTools(undefined, PATIENT)).tools.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(["memory__create_entities", "every__echo"]));
  const result = await client.callTool({ name: "every__echo", arguments: { message: "hello" } }, PATIENT);
  expect(JSON.stringify(result.content)).toContain("hello");
});
