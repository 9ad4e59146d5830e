// Recorded calls as a developer uses them: DevTools step through the past with glovebox replay --inspect-brk, and glovebox test runs the test that
// --record has written, in a project of its own.
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { cliEnvironment, MAIN, NodeProcess } from "../support/cli-process.ts";
import { DevToolsClient } from "../support/devtools-client.ts";
import { keepInterpreter, useKnownInterpreter } from "../support/interpreter-cache.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";

const TOOL = `import { randomUUID } from "node:crypto";

interface Input {
  readonly n: number;
}

export const capabilities = { kv: true };
export default async ({ n }: Input, ctx: any) => {
  const stored = (await ctx.kv.get("count")) ?? 0;
  await ctx.kv.set("count", 40);
  const total = stored + n;
  return { total, at: Date.now(), id: randomUUID() };
};
`;
/** Line of `return`. */
const RETURN_LINE = 12;

let folder = "";
let server: Server;
/** Id and output of the recorded call. */
let recorded: { readonly id: string; readonly output: { readonly total: number; readonly at: number } };

/** Folders of the caches of the server and of the command line. */
const caches = (): readonly string[] => [join(folder, "data", "cache"), join(folder, ".cache", "glovebox")];

function start(...args: readonly string[]): NodeProcess {
  const run = new NodeProcess([MAIN, ...args], { cwd: folder, env: cliEnvironment(folder) });
  onTestFinished(() => run[Symbol.asyncDispose]());
  return run;
}

async function gloveboxIn(
  cwd: string,
  ...args: readonly string[]
): Promise<{ readonly code: number | null; readonly said: string }> {
  await using run = new NodeProcess([MAIN, ...args], { cwd, env: cliEnvironment(folder) });
  const code = await run.exit;
  return { code, said: run.stdout + run.stderr };
}

const root = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "glovebox-recorded-"));
  for (const cache of caches()) useKnownInterpreter(cache);
  server = await createServer({
    port: 0,
    dataDir: join(folder, "data"),
    logLevel: "silent",
    limits: PATIENT_LIMITS,
    warmProcesses: 0,
    warmPythonProcesses: 0,
  });
  const admin = createClient({ url: server.url, key: server.adminKey as string });
  await admin.createTenant({ id: "acme", policy: { recording: {} } });
  const tenant = admin.tenant("acme");
  const scopes = ["tools:read", "calls:read", "calls:replay"];
  const { key } = await tenant.createKey({ name: "dev", scopes });
  await writeFile(join(folder, "key"), `${key}\n`);
  await tenant.deploy({ name: "counter", files: { "tool.ts": TOOL }, entry: "tool.ts", approve: true });
  // The next call reads what this one has stored.
  await tenant.call("counter", { input: { n: 1 } });
  const { id, output } = await tenant.call("counter", { input: { n: 2 } });
  recorded = { id, output: output as never };
  expect(recorded.output.total).toBe(42);
  expect((await gloveboxIn(folder, "login", server.url, "--key-file", join(folder, "key"))).code).toBe(0);
});
afterAll(async () => {
  await server.close({ drainMs: 0 });
  for (const cache of caches()) keepInterpreter(cache);
  await rm(folder, { recursive: true, force: true });
});

test("DevTools step through a recorded call, which has its recorded outcome", async () => {
  const replay = start("replay", recorded.id, "--inspect-brk=0", "--json");
  const [, url = ""] = await replay.says("stderr", /DevTools can attach at (ws:\S+)/);
  await using client = await DevToolsClient.connect(url);
  await client.send("Runtime.enable");
  await client.send("Debugger.enable");
  await client.send("Runtime.runIfWaitingForDebugger");
  const atStart = await client.paused();
  expect(client.script?.map.sourcesContent).toContain(TOOL);
  expect(client.placeOf(atStart)).toMatch(/tool\.ts:/);

  await client.breakAt("tool.ts", RETURN_LINE - 1);
  await client.send("Debugger.resume");
  const atTotal = await client.paused();
  expect(client.placeOf(atTotal)).toBe(`tool.ts:${RETURN_LINE - 1}`);
  // The value that the store had at the time of the call. This machine has none.
  expect(await client.locals(atTotal)).toMatchObject({ stored: 40, n: 2 });
  await client.send("Debugger.stepOver");
  const atReturn = await client.paused();
  expect(client.placeOf(atReturn)).toBe(`tool.ts:${RETURN_LINE}`);
  expect(await client.locals(atReturn)).toMatchObject({ total: 42 });
  const { result } = await client.send("Debugger.evaluateOnCallFrame", {
    callFrameId: atReturn.callFrames[0]?.callFrameId,
    expression: "Date.now()",
  });
  // The clock of the recorded call, however long the debugger holds the replay.
  expect(result).toMatchObject({ value: recorded.output.at });
  await client.send("Debugger.resume");
  expect(await replay.exit).toBe(0);
  expect(JSON.parse(replay.stdout)).toMatchObject({ verdict: "identical", result: { output: recorded.output } });
});

test("names the chunks of a stream that differ on another version", async () => {
  const tenant = createClient({ url: server.url, key: server.adminKey as string }).tenant("acme");
  const deploy = async (chunk: string): Promise<unknown> => {
    const source = `export default async function* () { yield 1; yield ${chunk}; return "done"; }`;
    return await tenant.deploy({ name: "rows", source, approve: true });
  };
  await deploy("2");
  let id = "";
  for await (const { event, data } of tenant.stream("rows", { input: {} })) if (event === "result") id = data.id;
  await deploy("3");
  expect(await gloveboxIn(folder, "replay", id)).toMatchObject({ code: 0, said: expect.stringContaining("identical") });
  // Without a terminal, the commands print JSON.
  const said = expect.stringMatching(/"chunks": \{[\s\S]*"first": 1,[\s\S]*"path": "\/1"[\s\S]*"after": "3"/);
  for (const args of [
    ["replay", id],
    ["rehearse", "rows"],
  ])
    expect(await gloveboxIn(folder, ...args, "--version", "2")).toMatchObject({ code: 1, said });
});

test("runs no other code that has the number of the recorded version, unless it is named", async () => {
  const tenant = createClient({ url: server.url, key: server.adminKey as string }).tenant("acme");
  const deploy = (output: string) =>
    tenant.deploy({ name: "again", source: `export default () => ${JSON.stringify(output)}` });
  await deploy("old");
  const { id } = await tenant.call("again", {});
  expect(await gloveboxIn(folder, "replay", id)).toMatchObject({ code: 0 });
  await tenant.deleteTool("again");
  await deploy("new");
  expect(await gloveboxIn(folder, "replay", id)).toEqual({
    code: 2,
    said: expect.stringContaining("version 1 is another"),
  });
  expect(await gloveboxIn(folder, "replay", id, "--version", "1")).toMatchObject({ code: 1 });
});

test("the written test passes, and fails after the tool has changed", async () => {
  const project = join(folder, "project");
  await mkdir(join(project, "node_modules"), { recursive: true });
  await symlink(root("node_modules/vitest"), join(project, "node_modules", "vitest"));
  const alias = JSON.stringify({ "glovebox/testing": root("dist/host/testing/index.js") });
  await writeFile(join(project, "vitest.config.mjs"), `export default { resolve: { alias: ${alias} } };`);
  await writeFile(join(project, "tool.ts"), TOOL);
  const written = await gloveboxIn(project, "test", "tool.ts", "--record", recorded.id);
  expect(written).toMatchObject({ code: 0, said: expect.stringContaining(`${recorded.id}.test.ts`) });
  const passed = await gloveboxIn(project, "test");
  expect(passed).toMatchObject({ code: 0, said: expect.stringMatching(/1 passed/) });
  await writeFile(join(project, "tool.ts"), TOOL.replace("stored + n", "stored - n"));
  const failed = await gloveboxIn(project, "test");
  expect(failed).toMatchObject({ code: 1, said: expect.stringMatching(/verdict[\s\S]*different/) });
});

test("replays a recorded call of a Python tool, also on another version", async () => {
  const source = (factor: number): string =>
    `import time\nfrom prices import PRICE\n\ndef main(input):\n    return {"total": input["n"] * PRICE * ${factor}, "at": time.time()}\n`;
  const admin = createClient({ url: server.url, key: server.adminKey as string });
  const tenant = admin.tenant("acme");
  const deploy = async (factor: number): Promise<void> => {
    const files = { "tool.py": source(factor), "prices.py": "PRICE = 3\n" };
    await tenant.deploy({ name: "pyprice", files, entry: "tool.py", approve: true });
  };
  await deploy(1);
  const { id, output } = await tenant.call("pyprice", { input: { n: 2 } });
  expect(output).toMatchObject({ total: 6 });
  expect(await gloveboxIn(folder, "replay", id, "--json")).toEqual({
    code: 0,
    said: expect.stringContaining('"verdict": "identical"'),
  });
  await deploy(2);
  const other = await gloveboxIn(folder, "replay", id, "--version", "2", "--json");
  expect([other.code, JSON.parse(other.said)]).toEqual([
    1,
    expect.objectContaining({
      verdict: "different",
      result: expect.objectContaining({ output: { ...(output as object), total: 12 } }),
    }),
  ]);
});
