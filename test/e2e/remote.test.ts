// A team hosts its users' tools with the command line alone: log in, deploy, call, read logs, deploy a broken version, roll back.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { cliEnvironment, MAIN, NodeProcess } from "../support/cli-process.ts";

const folder = mkdtempSync(join(tmpdir(), "glovebox-remote-"));
let server: Server;
let env: NodeJS.ProcessEnv;

const TOOL = `import { chunk } from "lodash-es";
import { createHash } from "node:crypto";
export const description = "Splits a list";
export const inputSchema = { type: "object", properties: { list: { type: "array" }, size: { type: "number" } }, required: ["list"] };
export default ({ list, size = 2 }: { list: unknown[]; size?: number }) => {
  console.log("splitting", list.length);
  return { parts: chunk(list, size), hash: createHash("sha256").update("a").digest("hex").slice(0, 8) };
};
`;

interface End {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

async function glovebox(...args: readonly string[]): Promise<End> {
  await using run = new NodeProcess([MAIN, ...args], { cwd: folder, env });
  const code = await run.exit;
  return { code, stdout: run.stdout, stderr: run.stderr };
}

beforeAll(async () => {
  server = await createServer({ port: 0, dataDir: join(folder, "data"), logLevel: "silent" });
  env = cliEnvironment(folder);
  const admin = createClient({ url: server.url, key: server.adminKey as string });
  await admin.createTenant({ id: "acme" });
  const scopes = ["tools:read", "tools:deploy", "tools:approve", "releases:write", "calls:read", "calls:run"];
  const { key } = await admin.tenant("acme").createKey({ name: "ci", scopes });
  writeFileSync(join(folder, "key"), `${key}\n`);
  mkdirSync(join(folder, "split"));
  mkdirSync(join(folder, "node_modules"));
  for (const name of ["lodash-es"]) {
    symlinkSync(
      fileURLToPath(new URL(`../../node_modules/${name}`, import.meta.url)),
      join(folder, "node_modules", name),
    );
  }
});
afterAll(async () => {
  await server.close({ drainMs: 0 });
  rmSync(folder, { recursive: true, force: true });
});

test("says how to log in when there is no key", async () => {
  const { code, stderr } = await glovebox("tools");
  expect([code, stderr]).toEqual([2, expect.stringContaining("glovebox login")]);
});

test("deploys a tool with a package, calls it, reads its logs, and rolls back", async () => {
  const wrong = join(folder, "wrong");
  writeFileSync(wrong, `gbx_${"A".repeat(43)}\n`);
  expect(await glovebox("login", server.url, "--key-file", wrong)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("UNAUTHENTICATED"),
  });
  expect(await glovebox("login", server.url, "--key-file", join(folder, "key"))).toMatchObject({ code: 0 });

  writeFileSync(join(folder, "split", "tool.ts"), TOOL);
  const deployed = await glovebox("deploy", "split");
  expect(deployed).toMatchObject({ code: 0, stderr: "" });
  expect(JSON.parse(deployed.stdout)).toMatchObject({ version: { tool: "split", version: 1, state: "ready" } });

  const called = await glovebox("call", "split", "--input", '{"list":[1,2,3]}');
  expect(called.code).toBe(0);
  expect(JSON.parse(called.stdout)).toEqual({ parts: [[1, 2], [3]], hash: "ca978112" });
  expect((await glovebox("logs", "split")).stdout).toContain("splitting 3");

  writeFileSync(join(folder, "split", "tool.ts"), "export default () => {\n  return (;\n};\n");
  const broken = await glovebox("deploy", "split");
  expect([broken.code, broken.stdout]).toEqual([2, ""]);
  expect(broken.stderr).toContain("tool.ts:2:");

  writeFileSync(join(folder, "split", "tool.ts"), 'export default () => "second";\n');
  expect((await glovebox("deploy", "split", "--canary", "10%")).code).toBe(0);
  expect((await glovebox("deploy", "split", "--canary", "10%")).stdout).toContain('"isKnown": true');
  expect((await glovebox("rollback", "split")).code).toBe(0);
  const failed = await glovebox("call", "split", "--input", "{}");
  expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining("PARAM_INVALID")]);
  const tools = JSON.parse((await glovebox("tools")).stdout);
  expect(tools).toEqual([{ name: "split", versions: 2, latestVersion: 2 }]);
  const calls = JSON.parse((await glovebox("calls", "--tool", "split")).stdout) as { state: string }[];
  expect(calls.map(({ state }) => state)).toEqual(["failed", "succeeded"]);
});

test("the client streams, queues, lists and reports errors", async () => {
  const client = createClient({ url: server.url, key: server.adminKey as string });
  const acme = client.tenant("acme");
  await acme.deploy({
    name: "count",
    source: "export default async function* ({ to }) { for (let n = 1; n <= to; n += 1) yield n; }",
  });
  const events = [];
  for await (const event of acme.stream("count", { input: { to: 3 } })) events.push(event);
  expect(events.filter(({ event }) => event === "chunk").map(({ data }) => data)).toEqual([1, 2, 3]);
  expect(events.at(-1)).toMatchObject({ event: "result", data: { state: "succeeded" } });

  await acme.deploy({ name: "one", source: "export default () => 1" });
  const { id } = await acme.enqueue("one");
  expect(["queued", "running", "succeeded"]).toContain((await acme.getCall(id)).state);
  for (let index = 0; index < 60; index += 1) await acme.call("one");
  let count = 0;
  for await (const call of acme.calls({ tool: "one" })) {
    expect(call.tool).toBe("one");
    count += 1;
  }
  expect(count).toBe(61);

  await expect(acme.getCall(`call_${"0".repeat(26)}`)).rejects.toMatchObject({
    name: "ApiError",
    status: 404,
    code: "NOT_FOUND",
  });
  await expect(createClient({ url: "http://127.0.0.1:9", key: "k", retries: 0 }).whoAmI()).rejects.toMatchObject({
    code: "NETWORK",
  });
  expect(() => createClient({ url: "ftp://x", key: "k" })).toThrow(TypeError);
  expect(() => createClient({ url: server.url, key: "k", unknown: 1 } as never)).toThrow(/unknown/);
});

test("the client repeats a call with an idempotency key after a network error, and the tool runs once", async () => {
  let failures = 0;
  const flaky: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (init?.method !== "POST" || failures > 0) return response;
    failures += 1;
    await response.text();
    throw new TypeError("the connection was lost after the server had answered");
  };
  const acme = createClient({ url: server.url, key: server.adminKey as string, fetch: flaky }).tenant("acme");
  const call = await acme.call("one", {}, { idempotencyKey: "once-only" });
  expect(failures).toBe(1);
  expect(call).toMatchObject({ state: "succeeded", output: 1, attempts: 1 });
});

test("top shows the running calls and processes of a server to a key of the platform", async () => {
  const before = env;
  env = { ...env, GLOVEBOX_URL: server.url, GLOVEBOX_API_KEY: server.adminKey };
  const { code, stdout } = await glovebox("top");
  env = before;
  expect(code).toBe(0);
  const { workers, overview } = JSON.parse(stdout) as {
    workers: { pid: number };
    overview: { total: { calls: number } };
  };
  expect([workers.pid, typeof overview.total.calls]).toEqual([process.pid, "number"]);
  const { toScreen } = await import("../../src/cli/commands/top.ts");
  const screen = toScreen(JSON.parse(stdout));
  expect(screen).toContain("worker processes");
  expect(screen).toMatch(/^TENANT +TOOL +CALLS +FAILED +MEDIAN +99 %$/m);
});
