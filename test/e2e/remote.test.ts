// A team hosts its users' tools with the command line alone: log in, deploy, call, read logs, deploy a broken version, roll back. The first
// command of each kind is a process of its own, the others run in this one.
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { openTool } from "../../src/host/testing/index.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { type CliEnd, enterFolder, runInProcess } from "../support/cli-in-process.ts";
import { cliEnvironment, MAIN, NodeProcess } from "../support/cli-process.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";

let folder = "";
let leave: () => Promise<void>;
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

const glovebox = (...args: readonly string[]): Promise<CliEnd> => runInProcess(args, { env });

async function gloveboxProcess(...args: readonly string[]): Promise<CliEnd> {
  await using run = new NodeProcess([MAIN, ...args], { cwd: folder, env });
  const code = await run.exit;
  return { code, stdout: run.stdout, stderr: run.stderr };
}

beforeAll(async () => {
  ({ folder, leave } = await enterFolder({}));
  server = await createServer({ port: 0, dataDir: join(folder, "data"), logLevel: "silent", limits: PATIENT_LIMITS });
  env = cliEnvironment(folder);
  const admin = createClient({ url: server.url, key: server.adminKey as string });
  await admin.createTenant({ id: "acme", policy: { recording: {} } });
  const scopes = [
    "tools:read",
    "tools:deploy",
    "tools:approve",
    "releases:write",
    "calls:read",
    "calls:run",
    "calls:replay",
  ];
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
  await leave();
});

test("says how to log in when there is no key", async () => {
  const { code, stderr } = await gloveboxProcess("tools");
  expect([code, stderr]).toEqual([2, expect.stringContaining("glovebox login")]);
});

test("names the variable that is wrong, and sends a stored key to its own server only", async () => {
  const run = async (variables: NodeJS.ProcessEnv): Promise<readonly [number | null, string]> => {
    const { code, stderr } = await runInProcess(["tools"], { env: { ...env, ...variables } });
    return [code, stderr];
  };
  const key = `gbx_${"A".repeat(43)}`;
  expect(await run({ GLOVEBOX_URL: "127.0.0.1:7070", GLOVEBOX_API_KEY: key })).toEqual([
    2,
    expect.stringContaining("GLOVEBOX_URL: expected an http or https URL"),
  ]);
  expect(await run({ GLOVEBOX_URL: server.url, GLOVEBOX_API_KEY: `${key}\n` })).toEqual([
    2,
    expect.stringContaining("GLOVEBOX_API_KEY: expected an API key without spaces and line breaks"),
  ]);
  expect((await glovebox("login", server.url, "--key-file", join(folder, "key"))).code).toBe(0);
  writeFileSync(join(folder, "two"), `${key}\n${key}\n`);
  expect(await glovebox("login", server.url, "--key-file", join(folder, "two"))).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--key-file: expected an API key without spaces and line breaks"),
  });
  const received: (string | undefined)[] = [];
  const other = createHttpServer(({ headers }, response) => {
    received.push(headers.authorization);
    response.end();
  });
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const { port } = other.address() as AddressInfo;
  expect(await run({ GLOVEBOX_URL: `http://127.0.0.1:${port}` })).toEqual([
    2,
    expect.stringContaining(`the stored API key is one of ${server.url}. Set GLOVEBOX_API_KEY too`),
  ]);
  expect(received).toEqual([]);
  expect((await run({ GLOVEBOX_URL: `${server.url}/` }))[0]).toBe(0);
  other.close();
});

test("sends the whole of stdin as a secret, and warns about a server without encryption", async () => {
  const bodies: unknown[] = [];
  const other = createHttpServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    if (text !== "") bodies.push(JSON.parse(text));
    const answer = {
      keyId: "key_1",
      tenantId: "acme",
      scopes: [],
      expiresAt: null,
      name: "PEM",
      hosts: ["api.example.com"],
    };
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => other.listen(0, "0.0.0.0", resolve));
  const { port } = other.address() as AddressInfo;
  const key = `gbx_${"A".repeat(43)}`;
  const login = (url: string): Promise<CliEnd> =>
    runInProcess(["login", url], { env: { HOME: folder }, stdin: `${key}\n` });
  const unsafe = await login(`http://0.0.0.0:${port}`);
  expect([unsafe.code, unsafe.stderr]).toEqual([0, expect.stringContaining("without encryption")]);
  const local = await login(`http://127.0.0.1:${port}`);
  expect([local.code, local.stderr]).toEqual([0, expect.not.stringContaining("Warning")]);

  const pem = "-----BEGIN PRIVATE KEY-----\n  MIIB \n-----END PRIVATE KEY-----";
  const args = ["secrets", "set", "PEM", "--allow-host", "api.example.com", "--tenant", "acme"];
  const variables = { ...env, GLOVEBOX_URL: `http://127.0.0.1:${port}`, GLOVEBOX_API_KEY: key };
  expect(await runInProcess(args, { env: variables, stdin: `${pem}\n` })).toMatchObject({ code: 0 });
  expect(bodies).toEqual([{ value: pem, hosts: ["api.example.com"] }]);
  other.close();
});

test("deploys a tool with a package, calls it, reads its logs, and rolls back", async () => {
  const wrong = join(folder, "wrong");
  writeFileSync(wrong, `gbx_${"A".repeat(43)}\n`);
  expect(await glovebox("login", server.url, "--key-file", wrong)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("UNAUTHENTICATED"),
  });
  expect(await gloveboxProcess("login", server.url, "--key-file", join(folder, "key"))).toMatchObject({ code: 0 });

  writeFileSync(join(folder, "split", "tool.ts"), TOOL);
  const deployed = await gloveboxProcess("deploy", "split");
  expect(deployed).toMatchObject({ code: 0, stderr: "" });
  expect(JSON.parse(deployed.stdout)).toMatchObject({ version: { tool: "split", version: 1, state: "ready" } });

  expect(await glovebox("logs", "split")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: "glovebox: split has no calls yet\n",
  });
  expect(await glovebox("logs", "spilt")).toMatchObject({ code: 1, stderr: expect.stringContaining("spilt") });
  const called = await gloveboxProcess("call", "split", "--input", '{"list":[1,2,3]}');
  expect(called.code).toBe(0);
  expect(JSON.parse(called.stdout)).toEqual({ parts: [[1, 2], [3]], hash: "ca978112" });
  expect((await gloveboxProcess("logs", "split")).stdout).toContain("splitting 3");

  writeFileSync(join(folder, "split", "tool.ts"), "export default () => {\n  return (;\n};\n");
  const broken = await gloveboxProcess("deploy", "split");
  expect([broken.code, broken.stdout]).toEqual([2, ""]);
  expect(broken.stderr).toContain("tool.ts:2:");

  writeFileSync(join(folder, "split", "sum.ts"), "export const sum = (a: number, b: number) => a + b;\n");
  const empty = await glovebox("deploy", join("split", "sum.ts"));
  expect([empty.code, empty.stderr]).toEqual([2, expect.stringContaining("BUNDLE_FAILED: sum.ts has no default")]);
  writeFileSync(join(folder, "split", "tool.ts"), "module.exports = () => 1;\n");
  expect((await glovebox("deploy", join("split", "tool.ts"), "--alias", "common")).code).toBe(0);

  writeFileSync(join(folder, "split", "tool.ts"), 'export default () => "second";\n');
  expect((await glovebox("deploy", "split", "--canary", "10%")).code).toBe(0);
  expect((await glovebox("deploy", "split", "--canary", "10%")).stdout).toContain('"isKnown": true');
  expect((await gloveboxProcess("rollback", "split")).code).toBe(0);
  const failed = await glovebox("call", "split", "--input", "{}");
  expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining("PARAM_INVALID")]);
  const tools = JSON.parse((await glovebox("tools")).stdout);
  expect(tools).toEqual([{ name: "split", versions: 3, latestVersion: 3 }]);
  const calls = JSON.parse((await glovebox("calls", "--tool", "split")).stdout) as { state: string }[];
  expect(calls.map(({ state }) => state)).toEqual(["failed", "succeeded"]);
  // The copies of the console name a version.
  const choose = (...args: readonly string[]) =>
    glovebox("call", "split", "--input", '{"list":[1,2,3]}', "--json", ...args);
  expect(JSON.parse((await choose("--version", "1")).stdout)).toMatchObject({ version: 1, state: "succeeded" });
  expect((await choose("--version", "99")).code).not.toBe(0);
  expect((await choose("--version", "1", "--alias", "live")).stderr).toContain("expected --version or --alias");
});

test("follows the log of a call, and of a tool with more calls than one list shows, while they run", async () => {
  const acme = createClient({ url: server.url, key: server.adminKey as string }).tenant("acme");
  await acme.deploy({
    name: "slow",
    source: `export default async () => {
      console.log("begins");
      for (;;) await new Promise((resolve) => setTimeout(resolve, 50));
    };`,
    limits: { timeoutMs: 300_000 },
  });
  await acme.deploy({ name: "many", source: "export default ({ n }) => { console.log('line', n, 'end'); };" });
  const { id } = await acme.enqueue("slow");
  const follow = (target: string) => new NodeProcess([MAIN, "logs", target, "-f"], { cwd: folder, env });
  await using one = follow(id);
  await using all = follow("slow");
  await using many = follow("many");
  await one.says("stdout", /begins/);
  expect((await acme.getCall(id)).endedAt).toBeNull();
  await all.says("stdout", /begins/);
  await acme.cancelCall(id);
  expect(await one.exit).toBe(0);

  await acme.call("many", { input: { n: 0 } });
  await many.says("stdout", /line 0 end/);
  const numbers = Array.from({ length: 300 }, (_, n) => n + 1);
  for (let start = 0; start < numbers.length; start += 100)
    await acme.batch(numbers.slice(start, start + 100).map((n) => ({ tool: "many", input: { n } })));
  const missing = new Set(numbers.map((n) => `line ${n} end`));
  while (missing.size > 0) missing.delete((await many.says("stdout", /line \d+ end/))[0]);
  expect(many.stdout).not.toContain("line");
  many.signal("SIGINT");
  expect(await many.exit).toBe(0);
});

test("follows a busy tool from its latest calls on, and never prints older ones later", async () => {
  const acme = createClient({ url: server.url, key: server.adminKey as string }).tenant("acme");
  await acme.deploy({ name: "busy", source: "export default ({ n }) => { console.log('line', n, 'end'); };" });
  await acme.batch(Array.from({ length: 60 }, (_, n) => ({ tool: "busy", input: { n } })));
  await using log = new NodeProcess([MAIN, "logs", "busy", "-f"], { cwd: folder, env });
  const printed: string[] = [];
  const next = async (): Promise<void> => {
    const [, n = ""] = await log.says("stdout", /line (\d+) end/);
    printed.push(n);
  };
  while (printed.length < 50) await next();
  // Each line comes with another list of the calls, and one of ten has those of the last minute again.
  for (let n = 100; n < 112; n += 1) {
    await acme.call("busy", { input: { n } });
    await next();
    expect(printed.at(-1)).toBe(String(n));
  }
  expect(new Set(printed).size).toBe(printed.length);
  log.signal("SIGINT");
  expect(await log.exit).toBe(0);
});

test("approves content that waits already, and says that denied content never runs", async () => {
  const source = (host: string): string =>
    `export const capabilities = { fetch: ["${host}"] };\nexport default () => "${host}";\n`;
  mkdirSync(join(folder, "asks"));
  const file = join(folder, "asks", "tool.ts");
  writeFileSync(file, source("a.example"));
  const waiting = JSON.parse((await glovebox("deploy", "asks")).stdout);
  expect(waiting).toMatchObject({ version: { version: 1, state: "waiting_for_approval" }, release: null });
  const approved = await glovebox("deploy", "asks", "--approve");
  expect(approved.code).toBe(0);
  expect(JSON.parse(approved.stdout)).toMatchObject({
    isKnown: true,
    version: { version: 1, state: "ready" },
    release: { versions: [{ version: 1, weight: 100 }] },
  });
  const admin = createClient({ url: server.url, key: server.adminKey as string });
  const actions = [];
  for await (const { action, target } of admin.tenant("acme").audit()) if (target === "asks@1") actions.push(action);
  expect(actions).toEqual(["version.deployed", "version.approved", "version.deployed"]);

  writeFileSync(file, source("c.example"));
  expect((await glovebox("deploy", "asks", "--alias", "next")).code).toBe(0);
  const other = await glovebox("approvals", "approve", "asks@2");
  expect([other.code, other.stderr]).toEqual([0, expect.stringContaining("To release the version, deploy it again")]);
  expect(JSON.parse((await glovebox("deploy", "asks", "--alias", "next")).stdout)).toMatchObject({
    isKnown: true,
    release: { alias: "next", versions: [{ version: 2, weight: 100 }] },
  });

  writeFileSync(file, source("b.example"));
  expect((await glovebox("deploy", "asks")).code).toBe(0);
  await admin.request("POST", "/v1/tenants/acme/tools/asks/versions/3/deny");
  const denied = await glovebox("deploy", "asks", "--approve");
  expect([denied.code, JSON.parse(denied.stdout).version.state]).toEqual([1, "denied"]);
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
  const { code, stdout } = await gloveboxProcess("top");
  env = before;
  expect(code).toBe(0);
  const { workers, overview } = JSON.parse(stdout) as {
    workers: { pid: number };
    overview: { total: { calls: number } };
  };
  expect([workers.pid, typeof overview.total.calls]).toEqual([process.pid, "number"]);
  const { toScreen } = await import("../../src/cli/commands/top.ts");
  const screen = toScreen(JSON.parse(stdout));
  expect(screen).toMatch(/\d+ worker process/);
  expect(screen).toMatch(/^TENANT +TOOL +CALLS +FAILED +P50 +P95 +P99$/m);
  expect(screen).toMatch(/^ *PROCESS +LANGUAGE +STATE +TENANT +RUNNING +WARM +SESSIONS +MEMORY$/m);
  expect(screen).toMatch(/^ *\d+ +javascript +(idle|busy) +acme +\d+ +\d+ +\d+ +\d+ MiB$/m);
});

test("replays a recorded call on this machine, and rehearses a version before its release", async () => {
  const source = "export default ({ n }) => ({ n, at: Date.now(), id: crypto.randomUUID() });\n";
  mkdirSync(join(folder, "ticket"));
  writeFileSync(join(folder, "ticket", "tool.ts"), source);
  expect((await glovebox("deploy", "ticket")).code).toBe(0);
  const called = await glovebox("call", "ticket", "--input", '{"n":1}', "--json");
  expect((await glovebox("call", "ticket", "--input", '{"n":2}', "--json")).code).toBe(0);
  const { id, output } = JSON.parse(called.stdout) as { readonly id: string; readonly output: unknown };

  const replayed = await gloveboxProcess("replay", id, "--json");
  expect([replayed.code, replayed.stderr]).toEqual([0, ""]);
  expect(JSON.parse(replayed.stdout)).toMatchObject({ verdict: "identical", match: "position", result: { output } });
  const edited = await glovebox("replay", id, "--input", '{"n":7}', "--json");
  expect([edited.code, JSON.parse(edited.stdout)]).toEqual([
    1,
    expect.objectContaining({
      verdict: "different",
      result: expect.objectContaining({ output: { ...(output as object), n: 7 } }),
    }),
  ]);

  expect((await glovebox("test", "ticket", "--record", id)).stdout).toContain(`${id}.test.ts`);
  expect((await glovebox("test", "ticket", "--record", id)).code).toBe(2);
  expect((await glovebox("test", "ticket", "--record", "../call")).code).toBe(2);
  await using tool = await openTool(join(folder, "ticket"));
  const fixture = readFileSync(join(folder, "ticket", `${id}.recording.json`), "utf8");
  expect(await tool.replay(JSON.parse(fixture))).toMatchObject({ verdict: "identical", result: { output } });
  expect(readFileSync(join(folder, "ticket", `${id}.test.ts`), "utf8")).toContain(`./${id}.recording.json`);

  writeFileSync(join(folder, "ticket", "tool.ts"), source.replace("{ n, at", "{ n: n === 2 ? 3 : n, at"));
  expect((await glovebox("deploy", "ticket", "--alias", "next")).code).toBe(0);
  const rehearsed = await gloveboxProcess("rehearse", "ticket", "--version", "2", "--since", "1h", "--json");
  expect([rehearsed.code, JSON.parse(rehearsed.stdout)]).toEqual([
    1,
    expect.objectContaining({ replayed: 2, identical: 1, different: 1 }),
  ]);
  expect((await glovebox("rehearse", "ticket", "--version", "1")).code).toBe(0);
  // A quota that does not let every recording run must not let a release pass unnoticed.
  const acme = createClient({ url: server.url, key: server.adminKey as string }).tenant("acme");
  const setQuota = (month: number) => acme.update({ policy: { recording: {}, quotas: { calls: { month } } } });
  await setQuota(1_000_000);
  expect((await glovebox("rehearse", "ticket", "--version", "1")).code).toBe(0);
  const [used] = (await acme.quotas()).quotas.filter(({ name }) => name === "calls:month");
  await setQuota((used?.used ?? Number.NaN) + 1);
  expect(await glovebox("rehearse", "ticket", "--version", "1")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(
      "1 skipped: 1 could not run, because of a limit of the tenant or of the server. --max-skipped N allows them",
    ),
  });
  await setQuota((used?.used ?? Number.NaN) + 2);
  expect((await glovebox("rehearse", "ticket", "--version", "1", "--max-skipped", "1")).code).toBe(0);
  await acme.update({ policy: { recording: {} } });
  expect(await glovebox("rehearse", "ticket")).toMatchObject({ code: 2, stderr: expect.stringContaining("--version") });
});

test("starts, shows, answers and cancels durable runs", async () => {
  const admin = createClient({ url: server.url, key: server.adminKey as string });
  const acme = admin.tenant("acme");
  const source = `export const capabilities = { waitFor: true };
    export default async ({ amount }, ctx) => {
      const { approved, reason } = await ctx.waitFor({ approval: "Refund " + amount + "?" });
      return approved ? { paid: await ctx.waitFor({ event: "paid" }) } : { denied: reason };
    };`;
  await acme.deploy({ name: "refund", source, approve: true });
  const scopes = ["calls:read", "calls:run", "calls:approve", "calls:cancel"];
  const { key } = await acme.createKey({ name: "runs", scopes });
  const runs = (...args: readonly string[]): Promise<CliEnd> =>
    runInProcess(["runs", ...args], { env: { ...env, GLOVEBOX_URL: server.url, GLOVEBOX_API_KEY: key } });
  const started = await runs("start", "refund", "--input", '{"amount":5}');
  expect([started.code, started.stderr]).toEqual([0, ""]);
  const { id, waits } = JSON.parse(started.stdout) as { id: string; waits: readonly { id: number }[] };
  const wait = String(waits[0]?.id);
  const listed = JSON.parse((await runs("--state", "suspended", "--tool", "refund")).stdout) as { id: string }[];
  expect(listed.map((one) => one.id)).toEqual([id]);
  expect(JSON.parse((await runs("--kind", "code")).stdout)).toEqual([]);
  const shown = JSON.parse((await runs("show", id)).stdout) as { state: string; journal: readonly { type: string }[] };
  expect([shown.state, shown.journal[0]?.type]).toEqual(["suspended", "start"]);
  expect((await runs("approve", id, wait, "--reason", "fine")).code).toBe(0);
  const paid = await runs("event", id, "paid", "--input", '{"by":"card"}');
  expect(JSON.parse(paid.stdout)).toMatchObject({ state: "succeeded", output: { paid: { by: "card" } } });
  const other = JSON.parse((await runs("start", "refund", "--input", '{"amount":6}', "--async")).stdout) as {
    id: string;
  };
  const cancelled = async (): Promise<string> => {
    await runs("cancel", other.id);
    return (await acme.getRun(other.id)).state;
  };
  await expect.poll(cancelled, { timeout: 200_000 }).toBe("cancelled");
  expect(await runs("approve", id)).toMatchObject({ code: 2, stderr: expect.stringContaining("WAIT") });
  expect(await runs("show", "run 1")).toMatchObject({ code: 1 });
});
