// What operators see of a NATS server or a database that cannot be reached, and what calls get meanwhile.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { startExecutor } from "../../src/executor/index.ts";
import type { FleetEvent } from "../../src/host/index.ts";
import { createServer } from "../../src/server/index.ts";
import { apiOf } from "../server/support/api.ts";
import { TestStores } from "../server/support/stores.ts";
import { openTcpProxy } from "../server/support/tcp-proxy.ts";
import { CliProcess } from "../support/cli-process.ts";
import { openFleet } from "../support/fleet.ts";
import { freePort } from "../support/free-port.ts";
import { hasNatsServer, startNatsServer } from "../support/nats-server.ts";

const openFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-outage-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
};

test.for([
  [
    "executor",
    "--nats",
    "nats",
    /^glovebox executor: Cannot reach the NATS server at nats:\/\/127\.0\.0\.1:\d+: connection refused; trying again$/m,
  ],
  [
    "serve",
    "--nats",
    "nats",
    /"level":40.*"event":"nats-unreachable".*"Cannot reach the NATS server at nats:\/\/127\.0\.0\.1:\d+: connection refused; trying again"/,
  ],
  ["serve", "--database", "postgres", /"level":40.*"Cannot connect to the Postgres database: .*; trying again"/],
] as const)(
  "%s %s says at once that it cannot connect, and shows no password",
  async ([command, flag, scheme, line]) => {
    const folder = openFolder();
    const url = `${scheme}://user:pass-word@127.0.0.1:${await freePort()}`;
    const others = command === "serve" ? ["--port", "0", "--data-dir", folder] : [];
    await using started = new CliProcess([command, flag, url, ...others], folder);
    const shown: string[] = [];
    shown.push((await started.says("stderr", line)).input);
    shown.push(started.stdout, started.stderr);
    expect(shown.join("\n")).not.toContain("pass-word");
    // A server that still starts ends 35 s after SIGTERM.
    started.signal("SIGKILL");
  },
);

test("a URL that is none is reported with the name of its flag", async () => {
  await using started = new CliProcess(["executor", "--nats", "http://127.0.0.1"], openFolder());
  await started.says("stderr", /--nats: expected a URL such as nats:\/\/127\.0\.0\.1:4222/);
  expect(await started.exit).toBe(2);
});

describe.skipIf(!hasNatsServer)("an outage of NATS", () => {
  test("is reported once on both sides, and calls fail at once until it is over", async () => {
    const events: FleetEvent[] = [];
    const count = (type: FleetEvent["type"]): number => events.filter((event) => event.type === type).length;
    await using fleet = await openFleet({ executors: ["a"], silenceMs: 4_000, onEvent: (event) => events.push(event) });
    await fleet.host.addTool({ name: "one", source: "export default () => 1" });
    const executor = await fleet.start("a");
    const call = () => fleet.host.execute({ id: "c", toolName: "one", arguments: {} }, { timeoutMs: 300_000 });
    expect(await call()).toMatchObject({ success: true });
    expect(events).toEqual([]);

    await fleet.nats.kill();
    await vi.waitFor(() => expect(count("nats-lost")).toBe(1));
    const unreachable = {
      success: false,
      error: {
        code: "OVERLOADED",
        message: "The executors cannot be reached at present; try again in 5000 ms",
        details: { retryAfterMs: 5_000 },
      },
    };
    // This one waits until the loss counts as an outage.
    expect(await call()).toMatchObject(unreachable);
    expect(fleet.host.fleet.isReachable).toBe(false);
    expect(await call()).toMatchObject(unreachable);
    await executor.says("stderr", /The connection to the NATS server at .* was lost; trying again/);
    await vi.waitFor(() => expect(count("executor-lost")).toBe(1));

    await fleet.nats.restart();
    await executor.says("stderr", /The connection to the NATS server at .* is back/);
    await vi.waitFor(() => expect(count("executor-returned")).toBe(1));
    expect(fleet.host.fleet.isReachable).toBe(true);
    expect(await call()).toMatchObject({ success: true, output: 1 });
    executor.signal("SIGTERM");
    expect(await executor.exit).toBe(0);
    expect(executor.stderr).not.toContain("was lost");
    await fleet.until("a", false);
    expect(events.map(({ type }) => type)).toEqual([
      "nats-lost",
      "executor-lost",
      "nats-connected",
      "executor-returned",
    ]);
  });

  test("leaves a server ready, which answers everything but calls", async () => {
    await using nats = await startNatsServer();
    await using server = await createServer({ port: 0, dataDir: openFolder(), logLevel: "silent", natsUrl: nats.url });
    const api = apiOf(server);
    const isReady = async (): Promise<boolean> => (await fetch(`${server.url}/readyz`)).ok;
    const reached = async (): Promise<string | undefined> =>
      /^glovebox_nats_reachable (\d)$/m.exec(
        await (
          await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${server.adminKey}` } })
        ).text(),
      )?.[1];
    expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
    const tool = { name: "one", source: "export default () => 1;" };
    expect((await api("POST", "/v1/tenants/acme/tools", tool)).status).toBe(201);
    expect([await isReady(), await reached()]).toEqual([true, "1"]);
    await nats.kill();
    await vi.waitFor(async () => expect(await reached()).toBe("0"), 30_000);
    expect(await isReady()).toBe(true);
    expect((await api("GET", "/v1/tenants/acme/tools")).status).toBe(200);
    const call = await api("POST", "/v1/tenants/acme/tools/one/calls", {});
    expect([call.status, call.headers.has("retry-after")]).toEqual([503, true]);
    const later = await api("POST", "/v1/tenants/acme/tools/one/calls", {}, { prefer: "respond-async" });
    expect(later.status).toBe(202);
    await nats.restart();
    await vi.waitFor(async () => expect(await reached()).toBe("1"), 30_000);
    expect(await isReady()).toBe(true);
  });

  test("does not keep a server from starting, which is not ready until it has reached NATS", async () => {
    const port = await freePort();
    await using server = await createServer({
      port: 0,
      dataDir: openFolder(),
      logLevel: "silent",
      natsUrl: `nats://127.0.0.1:${port}`,
    });
    const api = apiOf(server);
    const readiness = async () => {
      const response = await fetch(`${server.url}/readyz`);
      const { error } = (await response.json()) as { error?: { message: string } };
      return [response.status, error?.message];
    };
    expect(await readiness()).toEqual([503, "The server has not reached its NATS server yet"]);
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
    expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
    const tool = { name: "one", source: "export default () => 1;" };
    expect((await api("POST", "/v1/tenants/acme/tools", tool)).status).toBe(201);
    const call = await api("POST", "/v1/tenants/acme/tools/one/calls", {});
    expect([call.status, call.headers.has("retry-after")]).toEqual([503, true]);
    const queued = await api("POST", "/v1/tenants/acme/tools/one/calls", {}, { prefer: "respond-async" });
    expect(queued.status).toBe(202);

    await using nats = await startNatsServer({ port });
    await vi.waitFor(async () => expect(await readiness()).toEqual([200, undefined]), 60_000);
    await using _executor = await startExecutor({
      url: nats.url,
      cacheDir: openFolder(),
      workers: { warmProcesses: 0 },
    });
    const { id } = queued.body as { id: string };
    await vi.waitFor(async () => {
      const answer = await api("GET", `/v1/tenants/acme/calls/${id}`);
      expect(answer.body).toMatchObject({ state: "succeeded", output: 1 });
    }, 60_000);
    // Once it was reached, an outage leaves the server ready.
    await nats.kill();
    await vi.waitFor(
      async () =>
        expect(
          await (
            await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${server.adminKey}` } })
          ).text(),
        ).toMatch(/^glovebox_nats_reachable 0$/m),
      60_000,
    );
    expect(await readiness()).toEqual([200, undefined]);
  });

  test("a NATS server that never answers does not keep a server from starting", async () => {
    const silent = createTcpServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const { port } = silent.address() as AddressInfo;
    const folder = openFolder();
    const args = ["serve", "--nats", `nats://127.0.0.1:${port}`, "--port", "0", "--data-dir", folder];
    await using server = new CliProcess(args, folder);
    await server.says("stderr", /"event":"nats-unreachable".*no answer within 5000 ms; trying again/);
    await server.says("stdout", /Listening at/);
    server.signal("SIGTERM");
    expect(await server.exit).toBe(0);
    silent.close();
  });

  test("a server that started without NATS reports that it has no JetStream", async () => {
    const port = await freePort();
    const folder = openFolder();
    const args = ["serve", "--nats", `nats://127.0.0.1:${port}`, "--port", "0", "--data-dir", folder];
    await using server = new CliProcess(args, folder);
    await server.says("stdout", /Listening at/);
    await using _nats = await startNatsServer({ port, jetStream: false });
    await server.says("stderr", /"event":"nats-connected"/);
    await server.says("stderr", /The work queue cannot be used\. Queued calls come from the database/);
    server.signal("SIGKILL");
  });

  test("a server goes on trying while NATS denies its credentials, and says so", async () => {
    const events: FleetEvent[] = [];
    const has = (type: FleetEvent["type"]): boolean => events.some((event) => event.type === type);
    await using fleet = await openFleet({ executors: ["a"], onEvent: (event) => events.push(event) });
    await fleet.host.addTool({ name: "one", source: "export default () => 1" });
    const users = join(dirname(fleet.credentialsOf("a")), "nats-users.conf");
    const valid = readFileSync(users);
    // Such as while credentials are changed, or at one server of a cluster that has read an older file.
    writeFileSync(users, "authorization { users: [{ user: other, password: other }] }");
    fleet.nats.reload();
    await vi.waitFor(() => expect(has("nats-denied")).toBe(true), 60_000);
    const denied = events.find(({ type }) => type === "nats-denied");
    expect(denied?.message).toMatch(
      /^The NATS server at nats:\/\/127\.0\.0\.1:\d+ rejects the credentials; trying again$/,
    );
    await vi.waitFor(() => expect(fleet.host.fleet.isReachable).toBe(false), 60_000);

    writeFileSync(users, valid);
    fleet.nats.reload();
    await vi.waitFor(() => expect(has("nats-connected")).toBe(true), 60_000);
    await fleet.start("a");
    const call = await fleet.host.execute({ id: "c", toolName: "one", arguments: {} }, { timeoutMs: 300_000 });
    expect(call).toMatchObject({ success: true, output: 1 });
    expect(events.filter(({ type }) => type === "nats-denied")).toHaveLength(1);
  });

  test("fails the readiness of a replica as long as another one reaches NATS", async () => {
    await using stores = new TestStores();
    await using store = await stores.create("postgres");
    await using nats = await startNatsServer();
    await using proxy = await openTcpProxy(nats.port);
    const open = (natsUrl: string) =>
      createServer({
        ...store.options,
        dataDir: openFolder(),
        port: 0,
        logLevel: "silent",
        masterKey: "00".repeat(32),
        natsUrl,
      });
    await using one = await open(nats.url);
    await using two = await open(`nats://127.0.0.1:${proxy.port}`);
    const statuses = async () =>
      await Promise.all([one, two].map(async ({ url }) => (await fetch(`${url}/readyz`)).status));
    expect(await statuses()).toEqual([200, 200]);
    await proxy[Symbol.asyncDispose]();
    await vi.waitFor(async () => expect(await statuses()).toEqual([200, 503]), 30_000);
    const { error } = (await (await fetch(`${two.url}/readyz`)).json()) as { error: { message: string } };
    expect(error.message).toBe("The server cannot reach its NATS server");
    // Now neither does.
    await nats.kill();
    await vi.waitFor(async () => expect(await statuses()).toEqual([200, 200]), 30_000);
  });
});
