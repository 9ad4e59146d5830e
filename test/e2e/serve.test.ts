// glovebox serve as its users run it: from an empty folder, with flags, a config file and variables; stopped in order, and killed.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { apiOf } from "../server/support/api.ts";
import { cliEnvironment, MAIN, NO_WARM_PROCESSES, NodeProcess } from "../support/cli-process.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "glovebox-serve-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const startWithDefaults = (args: readonly string[], env: NodeJS.ProcessEnv = {}): NodeProcess =>
  new NodeProcess([MAIN, ...args], { cwd: folder, env: { ...cliEnvironment(folder), ...env } });
/** Only the first test needs a process that waits for a call. */
const start = (args: readonly string[], env: NodeJS.ProcessEnv = {}): NodeProcess =>
  startWithDefaults(args, { ...NO_WARM_PROCESSES, ...env });

interface Running {
  readonly url: string;
  readonly adminKey: string | undefined;
}

async function listening(server: NodeProcess): Promise<Running> {
  await vi.waitFor(() => expect(server.stdout + server.stderr).toMatch(/API reference|glovebox:/));
  const url = /Listening at (\S+)/.exec(server.stdout)?.[1];
  if (url === undefined) throw new Error(`The server did not start: ${server.stderr}`);
  return { url, adminKey: /Admin key, shown only now: (\S+)/.exec(server.stdout)?.[1] };
}

interface Call {
  readonly id: string;
  readonly state: string;
  readonly effects: string;
  readonly output: unknown;
}

test("starts in an empty folder, prints an admin key once, and lets a call finish when it is stopped", async () => {
  await using server = startWithDefaults(["serve", "--port", "0", "--log-level", "silent"]);
  const { url, adminKey } = await listening(server);
  const api = apiOf({ url, adminKey });
  const policy = { limits: { timeoutMs: 60_000 } };
  expect((await api("POST", "/v1/tenants", { id: "acme", policy })).status).toBe(201);
  // Long enough to be seen while it runs.
  const source = "export default () => new Promise((resolve) => setTimeout(() => resolve('finished'), 5_000))";
  await api("POST", "/v1/tenants/acme/tools", { name: "slow", source });
  const call = api<Call>("POST", "/v1/tenants/acme/tools/slow/calls", {});
  await vi.waitFor(
    async () => {
      const { body } = await api<{ running: { state: string }[] }>("GET", "/v1/workers");
      expect(body.running.map(({ state }) => state)).toEqual(["running"]);
    },
    { interval: 20 },
  );
  server.signal("SIGTERM");
  expect((await call).body.output).toBe("finished");
  expect(await server.exit).toBe(0);
  await using again = start(["serve", "--port", "0", "--log-level", "silent"]);
  const second = await listening(again);
  expect(second.adminKey).toBeUndefined();
  expect((await apiOf({ url: second.url, adminKey })("GET", "/v1/tenants/acme")).status).toBe(200);
  again.signal("SIGINT");
  expect(await again.exit).toBe(0);
});

test("runs every accepted asynchronous call after it was killed, and none twice that may have had effects", async () => {
  const args = ["serve", "--port", "0", "--log-level", "silent"];
  const first = start(args);
  const { url, adminKey } = await listening(first);
  const api = apiOf({ url, adminKey });
  await api("POST", "/v1/tenants", { id: "acme", policy: { limits: { timeoutMs: 60_000 } } });
  const source = `
    export const limits = { timeoutMs: 60_000 };
    export default async ({ n }) => { await new Promise((r) => setTimeout(r, 40)); return n; }`;
  await api("POST", "/v1/tenants/acme/tools", { name: "work", source });
  const headers = { prefer: "respond-async" };
  const accepted = await Promise.all(
    Array.from({ length: 120 }, (_, n) =>
      api<Call>("POST", "/v1/tenants/acme/tools/work/calls", { input: { n } }, headers),
    ),
  );
  expect(accepted.every(({ status }) => status === 202)).toBe(true);
  process.kill(first.pid, "SIGKILL");
  await first.exit;
  await using second = start(args);
  const after = apiOf({ url: (await listening(second)).url, adminKey });
  const states: Call[] = [];
  for (const { body } of accepted) {
    // One after the other: requests for calls that have ended would delay the others.
    await vi.waitFor(
      async () => {
        const call = (await after<Call>("GET", `/v1/tenants/acme/calls/${body.id}`)).body;
        expect(call.state).toMatch(/^(?:succeeded|failed)$/);
        states.push(call);
      },
      { interval: 100 },
    );
  }
  for (const [n, { state, effects, output }] of states.entries()) {
    // A call that ran when the server was killed says that it may have had effects; every other one has run.
    expect([state, effects, output]).toEqual(
      state === "failed" ? ["failed", "possible", null] : ["succeeded", "complete", n],
    );
  }
  expect(states.filter(({ state }) => state === "succeeded").length).toBeGreaterThan(60);
});

test("backs its database up while it runs, checks it, and restores it elsewhere", async () => {
  await using server = start(["serve", "--port", "0", "--log-level", "silent"]);
  const { url, adminKey } = await listening(server);
  await apiOf({ url, adminKey })("POST", "/v1/tenants", { id: "acme" });
  const run = async (...args: readonly string[]) => {
    await using command = start(["db", ...args]);
    return { code: await command.exit, stdout: command.stdout, stderr: command.stderr };
  };
  expect(await run("check")).toEqual({ code: 0, stdout: "The database is intact\n", stderr: "" });
  expect(await run("migrate")).toMatchObject({ code: 0, stdout: "The schema is current\n" });
  expect((await run("backup", "b.gz")).stdout).toMatch(/^Wrote \d+ rows to b\.gz/);
  expect((await run("restore", "b.gz")).stderr).toContain("The database is not empty");
  expect((await run("restore", "b.gz", "--data-dir", "other")).stdout).toMatch(/^Restored \d+ rows/);
  expect((await run("backup", "missing/b.gz")).stderr).toContain("missing/b.gz: ENOENT");
  expect((await run("backup")).stderr).toContain("expected FILE");
  expect((await run("rotate-key", "next.key")).stderr).toContain("Another server uses ");
  expect((await run("nonsense")).code).toBe(2);
  // Without the master key of the first server, the second one does not start.
  await using other = start(["serve", "--port", "0", "--data-dir", "other"]);
  expect(await other.exit).not.toBe(0);
  expect(other.stderr).toContain("master key that is not configured");
});

test("prints another admin key to an operator who has lost the first one", async () => {
  await using early = start(["db", "admin-key"]);
  expect([await early.exit, early.stderr]).toEqual([2, expect.stringContaining("There is no database")]);
  await using server = start(["serve", "--port", "0", "--log-level", "silent"]);
  const { url, adminKey } = await listening(server);
  await using command = start(["db", "admin-key"]);
  expect(await command.exit).toBe(0);
  const key = /^New admin key, shown only now: (gbx_\S+)\n$/.exec(command.stdout)?.[1];
  expect(key).not.toBe(adminKey);
  // The server that runs accepts both, and its audit log says where the second one came from.
  const { status, body } = await apiOf({ url, adminKey: key })<{ items: object[] }>("GET", "/v1/audit");
  expect(status).toBe(200);
  const details = { name: "admin", by: "glovebox db admin-key" };
  expect(body.items).toContainEqual(expect.objectContaining({ action: "key.created", actor: "server", details }));
  expect((await apiOf({ url, adminKey })("GET", "/v1/audit")).status).toBe(200);
});

test("ends when it is stopped while it waits for Postgres or NATS", { timeout: 60_000 }, async () => {
  const nowhere = "127.0.0.1:1";
  const credentials = join(folder, "fleet/control-plane.json");
  await using made = start(["executor", "credentials", "fleet", "one"]);
  expect(await made.exit, made.stderr).toBe(0);
  const executor = join(folder, "fleet/one.json");
  for (const args of [
    ["serve", "--port", "0", "--database", `postgres://user:password@${nowhere}/none`],
    ["serve", "--port", "0", "--nats", `nats://${nowhere}`, "--nats-credentials", credentials],
    ["executor", "--nats", `nats://${nowhere}`, "--credentials", executor],
  ]) {
    await using waiting = start(args);
    await vi.waitFor(() => expect(waiting.stderr).toContain("trying again"), { timeout: 20_000 });
    waiting.signal("SIGTERM");
    // The retries go on for 30 s and longer. A server that waits for NATS only may have started meanwhile, and stops in order.
    const codes = args.includes("--database") ? [143] : [143, 0];
    const code = await Promise.race([waiting.exit, sleep(20_000, "still waiting", { ref: false })]);
    expect(codes).toContain(code);
  }
});

test("reads its config file and variables, and flags come first", async () => {
  writeFileSync(
    join(folder, "glovebox.config.ts"),
    "export default { port: 7001, drainMs: 1234, logLevel: 'warn' as const };\n",
  );
  const env = { GLOVEBOX_PORT: "7002", GLOVEBOX_DATABASE: "postgres://user:secret@db.example/glovebox" };
  await using config = start(["config", "--log-level", "error"], env);
  expect(await config.exit).toBe(0);
  expect(JSON.parse(config.stdout)).toMatchObject({
    port: 7002,
    drainMs: 1234,
    logLevel: "error",
    host: "127.0.0.1",
    database: "postgres://redacted@db.example/glovebox",
  });
});

test.for([
  [["serve", "--database", "mysql://x"], "postgres://"],
  [["serve", "--config", "none.ts"], "none.ts does not exist"],
  [["serve", "--log-level", "loud"], "--log-level: Expected one of"],
] as const)("%j is a usage error that says what is right", async ([args, expected]) => {
  await using server = start(args);
  expect(await server.exit).toBe(2);
  expect(server.stderr).toContain(expected);
  expect(server.stdout).toBe("");
});

test.for([
  [["--host", "0.0.0.0"], {}],
  [[], { GLOVEBOX_HOST: "0.0.0.0" }],
  [["--host", "::"], {}],
] as const)("serve %j with %j is reached by address, and says how to allow names", async ([args, env]) => {
  await using server = start(["serve", "--port", "0", "--log-level", "silent", ...args], env);
  const { url } = await listening(server);
  const { status } = await fetch(`${url}/healthz`);
  expect(status).toBe(200);
  await vi.waitFor(() => expect(server.stdout).toMatch(/Allow names with --allow-host NAME or GLOVEBOX_ALLOW_HOSTS/));
});

test("says which option of a config file is wrong", async () => {
  writeFileSync(join(folder, "glovebox.config.ts"), "export default { prot: 7001 };\n");
  await using server = start(["serve"]);
  expect(await server.exit).toBe(2);
  expect(server.stderr).toContain("prot");
});

test.for([
  ["glovebox.config.mjs", "export default { port: 7001 };"],
  ["glovebox.config.mts", "export default { port: 7001 as const };"],
  ["glovebox.config.cjs", "module.exports = { port: 7001 };"],
  ["glovebox.config.json", '{ "port": 7001 }'],
])("reads %s", async ([name, text]) => {
  writeFileSync(join(folder, name as string), text as string);
  await using config = start(["config"]);
  expect([await config.exit, config.stderr]).toEqual([0, ""]);
  expect(JSON.parse(config.stdout)).toMatchObject({ port: 7001 });
});

test("says which one of several config files it reads", async () => {
  for (const [name, port] of [
    ["js", 7002],
    ["ts", 7001],
    ["json", 7003],
  ] as const)
    writeFileSync(
      join(folder, `glovebox.config.${name}`),
      name === "json" ? `{"port":${port}}` : `export default { port: ${port} };`,
    );
  await using config = start(["config"]);
  expect(await config.exit).toBe(0);
  expect(config.stderr).toBe(
    "glovebox: Reading glovebox.config.ts, and not glovebox.config.js, glovebox.config.json\n",
  );
  expect(JSON.parse(config.stdout)).toMatchObject({ port: 7001 });
});

test("prints the configuration and ends, also if a config file keeps a timer", async () => {
  writeFileSync(join(folder, "glovebox.config.ts"), "setInterval(() => {}, 1_000);\nexport default { port: 7001 };\n");
  await using config = start(["config"]);
  expect(await config.exit).toBe(0);
  expect(JSON.parse(config.stdout)).toMatchObject({ port: 7001 });
  writeFileSync(join(folder, "bad.ts"), "setInterval(() => {}, 1_000);\nthrow new Error('broken');\n");
  await using bad = start(["config", "--config", "bad.ts"]);
  expect([await bad.exit, bad.stdout]).toEqual([2, ""]);
});

const ENDED = "glovebox.config.ts has ended the process before it has exported its options";
test.for([
  ["ends the process", "process.exit(0);\nexport default {};", ENDED],
  ["never loads", "await new Promise(() => {});\nexport default {};", ENDED],
  ["throws", "throw new Error('broken');", "glovebox.config.ts cannot be loaded: broken"],
  ["throws in a getter", "export default { get port() { throw new Error('broken'); } };", "cannot be loaded: broken"],
  [
    "throws in a getter of an object",
    "export default { jwt: { audience: 'a', get issuer() { throw new Error('broken'); } } };",
    "cannot be loaded: broken",
  ],
  ["exports a Map", "export default new Map([['port', 7001]]);", "options: Expected a plain object, got a Map"],
  ["exports nothing", "export const port = 7001;", "glovebox.config.ts must export its options"],
])("a config file that %s is an error", async ([, text, expected]) => {
  writeFileSync(join(folder, "glovebox.config.ts"), text as string);
  await using config = start(["config"]);
  expect([await config.exit, config.stdout]).toEqual([2, ""]);
  expect(config.stderr).toContain(expected);
  expect(config.stderr).not.toContain("unexpected");
});

test.for([
  [["--config", "."], {}, "--config: expected a file, got the folder ."],
  [["--config", "broken.json"], {}, "The config file broken.json cannot be loaded"],
  [["--config", "list.json"], {}, "options: Expected a plain object, got an array"],
  [["--config", "text.json"], {}, 'The config file text.json must contain its options: { "port": 7070 }'],
  [[], { GLOVEBOX_PORT: "80x" }, "environment.GLOVEBOX_PORT: Expected a number, got a string"],
  [
    [],
    { GLOVEBOX_WEBHOOK_ADDRESSES: "10.0.0.0/8,hooks.internal" },
    "environment.GLOVEBOX_WEBHOOK_ADDRESSES.1: Expected an IP address",
  ],
  [
    [],
    { GLOVEBOX_JWT: '{"issuer":"ftp://x","audience":"a"}' },
    "environment.GLOVEBOX_JWT.issuer: Expected an https URL",
  ],
  [["--log-level", "loud"], {}, "--log-level: Expected one of"],
  [["--allow-host", "*"], {}, "--allow-host.0: Expected a host name"],
] as const)("%j with the variables %j is an error that names its source", async ([args, env, expected]) => {
  writeFileSync(join(folder, "broken.json"), "{ port: 7001 }");
  writeFileSync(join(folder, "list.json"), "[7001]");
  writeFileSync(join(folder, "text.json"), '"7001"');
  await using config = start(["config", ...args], env);
  expect([await config.exit, config.stdout]).toEqual([2, ""]);
  expect(config.stderr).toContain(expected);
  expect(config.stderr).not.toContain("file://");
});

test("a flag replaces a variable that is not valid", async () => {
  // Kubernetes sets it for a service with the name "glovebox".
  await using config = start(["config", "--port", "7001"], { GLOVEBOX_PORT: "tcp://10.0.0.1:7070" });
  expect(await config.exit).toBe(0);
  expect(JSON.parse(config.stdout)).toMatchObject({ port: 7001 });
});

test("keeps its data readable for its user only", async () => {
  await using server = start(["serve", "--port", "0", "--log-level", "silent"]);
  await listening(server);
  const { statSync } = await import("node:fs");
  expect(statSync(join(folder, "glovebox-data")).mode & 0o077).toBe(0);
  expect(statSync(join(folder, "glovebox-data", "glovebox.sqlite")).mode & 0o077).toBe(0);
  expect(readFileSync(`/proc/${server.pid}/cmdline`, "utf8")).not.toContain("gbx_");
});

test.for(["SIGTERM", "SIGKILL"] as const)("started by npx, it stops when npx ends by %s", async (name) => {
  const bin = join(folder, "node_modules", ".bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(folder, "package.json"), "{}");
  writeFileSync(join(bin, "glovebox"), `#!/bin/sh\nexec ${process.execPath} ${MAIN} "$@"\n`, { mode: 0o755 });
  const args = ["glovebox", "serve", "--port", "0", "--log-level", "silent"];
  // A group of its own, so that nothing is left behind if the test fails.
  const env = { ...cliEnvironment(folder), ...NO_WARM_PROCESSES, PATH: process.env.PATH };
  const npx = spawn("npx", args, { cwd: folder, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  try {
    let output = "";
    for (const stream of [npx.stdout, npx.stderr]) stream.on("data", (text) => (output += text));
    await vi.waitFor(() => expect(output).toMatch(/API reference/));
    const url = /Listening at (\S+)/.exec(output)?.[1] ?? "";
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    npx.kill(name);
    await vi.waitFor(() => expect(fetch(`${url}/healthz`)).rejects.toThrow(), { interval: 100 });
  } finally {
    try {
      process.kill(-(npx.pid as number), "SIGKILL");
    } catch {
      // All of them have ended.
    }
  }
});
