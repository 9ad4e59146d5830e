// A server and executors as their operators run them: credentials, NATS, glovebox serve and glovebox executor, all from the command line.
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Fleet } from "../../src/client/index.ts";
import { apiOf } from "../server/support/api.ts";
import { CliProcess, cliEnvironment, MAIN, NodeProcess } from "../support/cli-process.ts";
import { hasNatsServer, type NatsServer, startNatsServer } from "../support/nats-server.ts";

interface Call {
  readonly id: string;
  readonly state: string;
  readonly effects: string;
  readonly output: unknown;
  readonly error: { readonly code: string } | null;
}

describe.skipIf(!hasNatsServer)("glovebox serve --nats and glovebox executor", () => {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-fleet-e2e-"));
  const cli = (...args: readonly string[]): CliProcess => new CliProcess(args, folder);
  const credentials = (name: string): string => join(folder, "credentials", `${name}.json`);
  let nats: NatsServer;
  let server: CliProcess;
  let executor: CliProcess;
  let api: ReturnType<typeof apiOf>;
  let url = "";
  let adminKey = "";

  const aliveFile = (name: string): string => join(folder, `${name}.alive`);
  const startExecutor = (name: string): CliProcess => {
    const flags = ["--credentials", credentials(name), "--max-workers", "2", "--alive-file", aliveFile(name)];
    return cli("executor", "--nats", nats.url, ...flags);
  };

  beforeAll(async () => {
    const written = cli("executor", "credentials", "credentials", "one", "two");
    await written.says(
      "stdout",
      /Wrote control-plane\.json, one\.json, two\.json, nats-users\.conf\nExecutors: one, two/,
    );
    expect(await written.exit).toBe(0);
    nats = await startNatsServer({ users: join(folder, "credentials", "nats-users.conf") });
    const flags = ["--nats", nats.url, "--nats-credentials", credentials("control-plane")];
    server = cli("serve", "--port", "0", "--log-level", "silent", ...flags);
    [, adminKey = ""] = await server.says("stdout", /Admin key, shown only now: (\S+)/);
    [, url = ""] = await server.says("stdout", /Listening at (\S+)/);
    api = apiOf({ url, adminKey });
    executor = startExecutor("one");
    await executor.says(
      "stdout",
      /Executor one of the pool default is ready, with 32 slots, for JavaScript and Python/,
    );
    // A busy machine needs more than 5 s for the extraction of a definition.
    const policy = { limits: { timeoutMs: 300_000 } };
    expect((await api("POST", "/v1/tenants", { id: "acme", policy })).status).toBe(201);
    const source = "export default ({ n }) => n * 2";
    expect((await api("POST", "/v1/tenants/acme/tools", { name: "double", source })).status).toBe(201);
    const waits = "export default () => new Promise((resolve) => setTimeout(resolve, 8_000, 'waited'))";
    expect((await api("POST", "/v1/tenants/acme/tools", { name: "waits", source: waits })).status).toBe(201);
  });
  afterAll(async () => {
    await Promise.all([server?.[Symbol.asyncDispose](), executor?.[Symbol.asyncDispose]()]);
    await nats?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  const waitForBusy = async (busy: number): Promise<void> => {
    await vi.waitFor(async () => {
      const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${adminKey}` } });
      expect(await response.text()).toContain(`glovebox_executor_busy_slots{pool="default"} ${busy}`);
    });
  };
  const callTo = (id: string): Promise<{ readonly body: Call }> => api<Call>("GET", `/v1/tenants/acme/calls/${id}`);

  test("credentials files are readable by their owner only", () => {
    for (const name of ["control-plane", "one", "two"]) expect(statSync(credentials(name)).mode & 0o077).toBe(0);
  });

  test("runs synchronous and asynchronous calls on the executor", async () => {
    const call = await api<Call>("POST", "/v1/tenants/acme/tools/double/calls", { input: { n: 21 } });
    expect(call.body).toMatchObject({ state: "succeeded", effects: "complete", output: 42 });
    const accepted = await api<Call>(
      ...(["POST", "/v1/tenants/acme/tools/double/calls", { input: { n: 4 } }, { prefer: "respond-async" }] as const),
    );
    expect(accepted.status).toBe(202);
    await vi.waitFor(async () => {
      expect((await callTo(accepted.body.id)).body).toMatchObject({
        state: "succeeded",
        effects: "complete",
        output: 8,
      });
    });
  });

  test("an asynchronous call of a killed executor ends once: on the next executor if nothing of it had run, else with its effects stated", async () => {
    const path = "/v1/tenants/acme/tools/waits/calls";
    const { body } = await api<Call>("POST", path, {}, { prefer: "respond-async" });
    await waitForBusy(1);
    executor.signal("SIGKILL");
    await executor.exit;
    executor = startExecutor("two");
    await executor.says("stdout", /Executor two of the pool default is ready/);
    const ended = await vi.waitFor(async () => {
      const call = await callTo(body.id);
      expect(["succeeded", "failed"]).toContain(call.body.state);
      return call.body;
    });
    expect(ended).toMatchObject(
      ended.state === "succeeded"
        ? { effects: "complete", output: "waited" }
        : { effects: "possible", error: { code: "SANDBOX_CRASHED" } },
    );
    const call = await api<Call>("POST", "/v1/tenants/acme/tools/double/calls", { input: { n: 5 } });
    expect(call.body).toMatchObject({ state: "succeeded", output: 10 });
  });

  test("explains credentials of the wrong role, and a NATS server that does not know the user", async () => {
    await using wrong = startExecutor("control-plane");
    await wrong.says("stderr", /The credentials file is for the role "control-plane", not "executor"/);
    expect(await wrong.exit).toBe(2);
    const other = cli("executor", "credentials", "other", "three");
    expect(await other.exit).toBe(0);
    await using unknown = cli("executor", "--nats", nats.url, "--credentials", join(folder, "other", "three.json"));
    await unknown.says("stderr", /The connection to NATS failed: .*authori[sz]ation/i);
    expect(await unknown.exit).toBe(2);
  });

  test("lists the fleet, and drains one executor, for an operator", async () => {
    await using other = startExecutor("one");
    await other.says("stdout", /Executor one of the pool default is ready/);
    const glovebox = async (...args: readonly string[]) => {
      const env = { ...cliEnvironment(folder), GLOVEBOX_URL: url, GLOVEBOX_API_KEY: adminKey };
      await using run = new NodeProcess([MAIN, ...args], { cwd: folder, env });
      return { code: await run.exit, stdout: run.stdout, stderr: run.stderr };
    };
    const listed = await vi.waitFor(async () => {
      const { stdout } = await glovebox("fleet");
      const fleet = JSON.parse(stdout) as Fleet;
      expect(fleet.executors.map(({ id, state }) => `${id} ${state}`)).toEqual(["one live", "two live"]);
      return fleet;
    });
    const [replica] = listed.replicas;
    expect(listed).toMatchObject({ usesExecutors: true, replicaId: replica?.id, replicas: [{ state: "live" }] });
    expect(listed.pools).toEqual([
      { pool: "default", executors: 2, draining: 0, slots: 64, busy: 0, queued: 0, oldestMs: 0 },
    ]);
    expect(listed.executors[0]).toMatchObject({ pool: "default", version: replica?.version, slots: 32, busy: 0 });

    const { body } = await api<{ key: string }>("POST", "/v1/tenants/acme/keys", {
      name: "tenant",
      scopes: ["calls:run", "calls:read"],
    });
    const asTenant = apiOf({ url, adminKey: undefined }, body.key);
    expect((await asTenant("GET", "/v1/fleet")).status).toBe(403);
    expect((await asTenant("POST", "/v1/fleet/executors/one/drain")).status).toBe(403);
    expect((await asTenant("POST", "/v1/fleet/executors/none/drain")).status).toBe(403);

    const drained = await glovebox("fleet", "drain", "one");
    expect([drained.stderr, drained.code]).toEqual(["", 0]);
    expect(JSON.parse(drained.stdout)).toMatchObject({ id: "one", state: "draining" });
    await other.says("stdout", /A server has requested that this executor finishes its calls and ends/);
    expect(await other.exit).toBe(0);
    await vi.waitFor(async () => {
      const { body } = await api<Fleet>("GET", "/v1/fleet");
      expect(body.executors).toMatchObject([{ id: "two", state: "live" }]);
    });
    expect(await glovebox("fleet", "drain", "one")).toMatchObject({
      code: 1,
      stderr: "glovebox: NOT_FOUND: No executor with this id is connected\n",
    });
    expect((await glovebox("fleet", "drain")).code).toBe(2);
    const { body: audit } = await api<{ items: object[] }>("GET", "/v1/audit");
    expect(audit.items).toContainEqual(
      expect.objectContaining({ action: "executor.drain_requested", target: "one", tenantId: null }),
    );
  });

  test("writes its file again and again while it runs", async () => {
    const { mtimeMs } = statSync(aliveFile("two"));
    await vi.waitFor(() => expect(statSync(aliveFile("two")).mtimeMs).toBeGreaterThan(mtimeMs));
  });

  test("stops the executor and the server in order", async () => {
    executor.signal("SIGTERM");
    expect(await executor.exit).toBe(0);
    expect(existsSync(aliveFile("two"))).toBe(false);
    server.signal("SIGTERM");
    expect(await server.exit).toBe(0);
  });
});
