// What the overview lists as wrong now: each kind of problem appears where it belongs, and no tenant sees another's.
import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Glovebox } from "../../src/host/index.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { type ProblemRecord, readProblems } from "../../src/server/records/reports/problems.ts";
import { apiOf } from "./support/api.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
const patiently = { timeout: 120_000, interval: 50 };

describe.for(STORES)("with %s", (kind) => {
  let store: TestStore;
  let server: Server;
  let receiver: HttpServer;
  let api: ReturnType<typeof apiOf>;
  const base = "/v1/tenants/acme";

  beforeAll(async () => {
    receiver = createHttpServer((_, response) => {
      response.statusCode = 410;
      response.end();
    });
    await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
    store = await stores.create(kind);
    const webhookAddresses = ["127.0.0.0/8"];
    server = await createServer({ ...store.options, port: 0, logLevel: "silent", webhookAddresses });
    api = apiOf(server);
    const policy = { quotas: { calls: { month: 50 } }, egress: { allow: ["example.com"] } };
    for (const id of ["acme", "beta"]) expect((await api("POST", "/v1/tenants", { id, policy })).status).toBe(201);
  });
  afterAll(async () => {
    await server.close({ drainMs: 0 });
    receiver.close();
    await store[Symbol.asyncDispose]();
  });

  const deploy = async (name: string, source: string, more: object = {}): Promise<void> => {
    expect((await api("POST", `${base}/tools`, { name, source, ...more })).status).toBe(201);
  };
  const call = (name: string) => api("POST", `${base}/tools/${name}/calls`, {});
  const problems = async (path: string): Promise<readonly ProblemRecord[]> =>
    (await api<{ readonly items: readonly ProblemRecord[] }>("GET", path)).body.items;
  const find = async (wanted: ProblemRecord["kind"], path = `${base}/problems`) =>
    (await problems(path)).filter((problem) => problem.kind === wanted);

  test("a tool that fails often", async () => {
    await deploy("failing", "export default () => { throw new Error('no'); }");
    for (let index = 0; index < 4; index += 1) await call("failing");
    await expect.poll(() => find("tool_failing"), patiently).toEqual([]);
    await call("failing");
    await expect
      .poll(() => find("tool_failing"), patiently)
      .toEqual([expect.objectContaining({ tenantId: "acme", target: "failing", count: 5, details: { calls: 5 } })]);
  });

  test("lists no tool whose calls fail by the fault of their callers", async () => {
    const own = "/v1/tenants/careless";
    expect((await api("POST", "/v1/tenants", { id: "careless" })).status).toBe(201);
    const source = `export const inputSchema = { type: "object", required: ["n"] };
      export default ({ n }) => { if (n < 0) throw new Error("negative"); return n; }`;
    expect((await api("POST", `${own}/tools`, { name: "strict", source })).status).toBe(201);
    const send = (name: string, input: object) => api("POST", `${own}/tools/${name}/calls`, { input });
    for (let count = 0; count < 6; count += 1) {
      expect((await send("strict", {})).status).toBe(422);
      expect((await send("nowhere", {})).status).toBe(404);
    }
    const calls = async () => (await api<{ items: readonly object[] }>("GET", `${own}/calls`)).body.items;
    await expect.poll(async () => (await calls()).length, patiently).toBeGreaterThanOrEqual(6);
    expect(await find("tool_failing", `${own}/problems`)).toEqual([]);
    for (let count = 0; count < 6; count += 1) await send("strict", { n: -1 });
    await expect
      .poll(() => find("tool_failing", `${own}/problems`), patiently)
      .toEqual([expect.objectContaining({ target: "strict", count: 6 })]);
  });

  test("a quota of which 80 % is used", async () => {
    await deploy("counted", "export default () => 1");
    expect((await call("counted")).status).toBe(200);
    // Other tests have made calls of this tenant too.
    await expect
      .poll(async () => {
        await call("counted");
        return await find("quota_warning");
      }, patiently)
      .toEqual([
        expect.objectContaining({
          tenantId: "acme",
          target: "calls:month",
          details: { used: expect.any(Number), limit: 50, resetsAt: expect.any(Number) },
        }),
      ]);
    const [warning] = await find("quota_warning");
    expect(warning?.details.used).toBeGreaterThanOrEqual(40);
    expect(warning?.details.resetsAt).toBeGreaterThan(Date.now());
  });

  test("a webhook whose deliveries have failed for good", async () => {
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
    const { body } = await api("POST", `${base}/webhooks`, { url, events: ["call.failed"] });
    expect((await api("POST", `${base}/webhooks/${body.id}/test`)).status).toBe(202);
    await expect
      .poll(() => find("webhook_failing"), patiently)
      .toEqual([
        expect.objectContaining({ tenantId: "acme", target: body.id, count: 1, details: { failed: 1, retried: 0 } }),
      ]);
  });

  test("a webhook that does not accept a delivery, which will be tried again", async () => {
    // A tenant of its own, because the failing calls of others would add deliveries.
    const own = "/v1/tenants/unheard";
    expect((await api("POST", "/v1/tenants", { id: "unheard" })).status).toBe(201);
    const { body } = await api("POST", `${own}/webhooks`, { url: "http://127.0.0.1:9/hook", events: ["call.failed"] });
    expect(await find("webhook_failing", `${own}/problems`)).toEqual([]);
    expect((await api("POST", `${own}/webhooks/${body.id}/test`)).status).toBe(202);
    await expect
      .poll(() => find("webhook_failing", `${own}/problems`), patiently)
      .toEqual([
        expect.objectContaining({ tenantId: "unheard", target: body.id, count: 1, details: { failed: 0, retried: 1 } }),
      ]);
  });

  test("lists no quota that the policy has raised or removed since", async () => {
    const own = "/v1/tenants/raised";
    const withCalls = (month: number) => ({ policy: { quotas: { calls: { month } } } });
    expect((await api("POST", "/v1/tenants", { id: "raised", ...withCalls(5) })).status).toBe(201);
    const source = "export default () => 1";
    expect((await api("POST", `${own}/tools`, { name: "one", source })).status).toBe(201);
    for (let count = 0; count < 4; count += 1) await api("POST", `${own}/tools/one/calls`, {});
    const warned = () => find("quota_warning", `${own}/problems`);
    await expect.poll(warned, patiently).toHaveLength(1);
    expect((await api("PATCH", own, withCalls(50))).status).toBe(200);
    await expect.poll(warned, patiently).toEqual([]);
    expect((await api("PATCH", own, withCalls(5))).status).toBe(200);
    await expect.poll(warned, patiently).toHaveLength(1);
    expect((await api("PATCH", own, { policy: {} })).status).toBe(200);
    await expect.poll(warned, patiently).toEqual([]);
  });

  test("a schedule whose latest call has failed, unless it is paused", async () => {
    // A tenant of its own, because its calls would use the quota of the others.
    const timed = "/v1/tenants/timed";
    expect((await api("POST", "/v1/tenants", { id: "timed" })).status).toBe(201);
    const source = `export const capabilities = { kv: true };
      export default async (_, { kv }) => { if ((await kv.get("ready")) !== true) throw new Error("not yet"); };`;
    expect((await api("POST", `${timed}/tools`, { name: "nightly", source, approve: true })).status).toBe(201);
    const schedule = { name: "often", tool: "nightly", cron: "* * * * * *", overlap: "skip" };
    const { body, status } = await api("POST", `${timed}/schedules`, schedule);
    expect(status).toBe(201);
    const path = `${timed}/schedules/${body.id}`;
    const failing = {
      kind: "schedule_failing",
      tenantId: "timed",
      target: body.id,
      count: 1,
      at: expect.any(Number),
      details: { name: "often", tool: "nightly", callId: expect.stringMatching(/^call_/), code: "TOOL_FAILED" },
    };
    // While the latest call runs, it has not failed.
    for (const list of [`${timed}/problems`, "/v1/problems"]) {
      await expect.poll(() => find("schedule_failing", list), patiently).toEqual([failing]);
    }
    expect(await find("schedule_failing")).toEqual([]);
    expect((await api("PATCH", path, { state: "paused" })).status).toBe(200);
    await expect.poll(() => find("schedule_failing", `${timed}/problems`), patiently).toEqual([]);
    expect((await api("PUT", `${timed}/kv/nightly/values/ready`, { value: true })).status).toBe(200);
    expect((await api("PATCH", path, { state: "active" })).status).toBe(200);
    const stateOfLatest = async (): Promise<unknown> => {
      const { lastCallId } = (await api<{ readonly lastCallId: string }>("GET", path)).body;
      return (await api<{ readonly state: string }>("GET", `${timed}/calls/${lastCallId}`)).body.state;
    };
    await expect.poll(stateOfLatest, patiently).toBe("succeeded");
    await expect.poll(() => find("schedule_failing", `${timed}/problems`), patiently).toEqual([]);
    await api("PATCH", path, { state: "paused" });
  });

  test("a version that waits for approval", async () => {
    const source = "export const capabilities = { fetch: true }; export default () => 1";
    await deploy("wants", source);
    await expect
      .poll(() => find("version_waiting"), patiently)
      .toEqual([expect.objectContaining({ tenantId: "acme", target: "wants@1", count: 1 })]);
    expect((await api("POST", `${base}/tools/wants/versions/1/approve`)).status).toBe(200);
    await expect.poll(() => find("version_waiting"), patiently).toEqual([]);
  });

  test("lists a release that went back by itself", async () => {
    await deploy("flaky", "export default () => 'good'");
    await deploy("flaky", "export default () => { throw new Error('bad'); }");
    await using database = await openDatabase({
      url: store.options.database,
      dataDir: store.options.dataDir,
      onError() {},
    });
    const change = { tenant_id: "acme", tool_name: "flaky", alias: "live", versions: "[]", changed_by: "server" };
    await database.db
      .insertInto("release_history")
      .values({ ...change, revision: 9, reason: "automatic_rollback", created_at: Date.now() })
      .execute();
    await expect
      .poll(() => find("release_rolled_back"), patiently)
      .toEqual([expect.objectContaining({ tenantId: "acme", target: "flaky:live", count: 1 })]);
  });

  test("open circuits, a quarantined tool, and layers that the machine lacks, which only the operator sees", async () => {
    await using database = await openDatabase({
      url: store.options.database,
      dataDir: store.options.dataDir,
      onError() {},
    });
    const { db } = database;
    await deploy("crashing", "export default () => 'crashing'");
    const { bundle_hash: contentHash } = await db
      .selectFrom("tool_versions")
      .select("bundle_hash")
      .where("tool_name", "=", "crashing")
      .executeTakeFirstOrThrow();
    // The library's own tests open circuits and quarantine tools.
    const circuit = {
      failures: 5,
      rejected: 3,
      since: 1,
      nextProbeAt: 2,
      lastFailure: { code: "SANDBOX_CRASHED", at: 1 },
    };
    const sources = [
      { source: "sandbox", sourceId: "sandbox:crashing", tenantId: "acme", state: "open", ...circuit },
      { source: "sandbox", sourceId: "sandbox:fine", tenantId: "acme", state: "closed", ...circuit, failures: 1 },
      { source: "mcp", sourceId: "upstream", tenantId: undefined, state: "half-open", ...circuit },
    ];
    const glovebox = {
      quarantinedTools: [{ contentHash, callsLeft: 7 }],
      health: ({ tenantId }: { readonly tenantId?: string }) =>
        sources.filter((one) => tenantId === undefined || one.tenantId === tenantId),
      hardening: { seccomp: "missing", namespaces: "active" },
    } as unknown as Glovebox;
    const overview = { tools: [] } as unknown as Parameters<typeof readProblems>[2];
    const of = async (tenantId: string | undefined) => {
      const all = await readProblems({ db, tenantId, now: Date.now() }, glovebox, overview);
      const wanted: readonly string[] = ["circuit_open", "tool_quarantined", "worker_unhardened"];
      return all.filter(({ kind: found }) => wanted.includes(found));
    };
    const quarantined = expect.objectContaining({
      kind: "tool_quarantined",
      tenantId: "acme",
      target: "crashing@1",
      details: { callsLeft: 7 },
    });
    const open = expect.objectContaining({
      kind: "circuit_open",
      tenantId: "acme",
      target: "crashing",
      count: 3,
      at: 1,
      details: { state: "open", failures: 5, rejected: 3, nextProbeAt: 2, code: "SANDBOX_CRASHED" },
    });
    expect(await of("acme")).toEqual([quarantined, open]);
    expect(await of("beta")).toEqual([]);
    const seen = await of(undefined);
    expect(seen).toHaveLength(4);
    for (const one of [quarantined, open]) expect(seen).toContainEqual(one);
    expect(seen).toContainEqual(expect.objectContaining({ kind: "circuit_open", tenantId: null, target: "upstream" }));
    expect(seen).toContainEqual(
      expect.objectContaining({ kind: "worker_unhardened", tenantId: null, target: "seccomp" }),
    );
  });

  test("another tenant sees none of them, and the operator all", async () => {
    expect(await problems("/v1/tenants/beta/problems")).toEqual([]);
    // The list of all tenants is kept for the longer, the longer it took to read.
    await vi.waitFor(async () => {
      const all = await problems("/v1/problems");
      const kinds = new Set(all.filter(({ tenantId }) => tenantId === "acme").map(({ kind: one }) => one));
      for (const one of ["tool_failing", "quota_warning", "webhook_failing", "release_rolled_back"] as const) {
        expect(kinds).toContain(one);
      }
      expect(all.map(({ at }) => at)).toEqual(all.map(({ at }) => at).toSorted((a, b) => b - a));
    });
  });
});
