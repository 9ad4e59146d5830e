// Idempotency keys of calls: which failures leave them free, batches, and keys that only the server can use. On both databases.

import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { ToolResult } from "../../src/host/index.ts";
import { toNewRow } from "../../src/server/calls/new-call.ts";
import type { DirectAnswer } from "../../src/server/calls/running/direct-call.ts";
import { DirectCalls } from "../../src/server/calls/running/direct-calls.ts";
import { StartingCalls } from "../../src/server/calls/running/starting-calls.ts";
import { type Db, type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import { type CallRow, findByKey, insertOnce } from "../../src/server/records/calls/calls.ts";
import { findSchedule, insertSchedule } from "../../src/server/records/events/schedules.ts";
import { findTenant, type TenantRecord } from "../../src/server/records/tenants/tenants.ts";
import { Scheduler } from "../../src/server/schedules/scheduler.ts";
import { apiOf } from "./support/api.ts";
import { startKillableServer } from "./support/killable-server.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

interface Call {
  readonly id: string;
  readonly state: string;
  readonly output: unknown;
  readonly error: { readonly code: string; readonly message: string } | null;
}
interface Failed {
  readonly error: { readonly code: string; readonly message: string };
}
interface Items {
  readonly items: readonly Call[];
}

const SOURCE = "export default ({ n = 0 }) => { if (n < 0) throw new Error('negative'); return n; };";

describe.for(STORES)("with %s", (kind) => {
  const parts = useServer(stores, kind, ["acme", "beta", "gamma"]);
  const { api } = parts;
  let database: OpenDatabase;
  let restricted: ReturnType<typeof apiOf>;
  const call = (tenant: string, key: string, input: object = {}) =>
    api<Call>("POST", `/v1/tenants/${tenant}/tools/echo/calls`, { input }, { "idempotency-key": key });

  beforeAll(async () => {
    for (const tenant of ["acme", "beta", "gamma"])
      expect((await api("POST", `/v1/tenants/${tenant}/tools`, { name: "echo", source: SOURCE })).status).toBe(201);
    const key = { name: "runs", scopes: ["calls:run", "calls:read"] };
    const { body } = await api<{ key: string }>("POST", "/v1/tenants/acme/keys", key);
    restricted = apiOf(parts.server, body.key);
    const { dataDir, database: url } = parts.store.options;
    database = await openDatabase({ url, dataDir, onError() {} });
  });
  afterAll(() => database[Symbol.asyncDispose]());

  test("a call that met a quota leaves its key to the next call, and any other failure keeps it", async () => {
    expect((await api("PATCH", "/v1/tenants/beta", { policy: { quotas: { calls: { month: 1 } } } })).status).toBe(200);
    expect((await call("beta", "first")).status).toBe(200);
    const rejected = await call("beta", "later", { n: 7 });
    expect([rejected.status, rejected.body.error?.code]).toEqual([429, "QUOTA_EXCEEDED"]);
    expect((await call("beta", "later", { n: 7 })).body.id).not.toBe(rejected.body.id);
    expect((await api("PATCH", "/v1/tenants/beta", { policy: {} })).status).toBe(200);
    const done = await call("beta", "later", { n: 7 });
    expect([done.status, done.body.output]).toEqual([200, 7]);
    expect((await call("beta", "later", { n: 7 })).body.id).toBe(done.body.id);
    // The record of the failure stays.
    const { body } = await api<Call>("GET", `/v1/tenants/beta/calls/${rejected.body.id}`);
    expect(body).toMatchObject({ state: "failed", effects: "none", error: { code: "QUOTA_EXCEEDED" } });
    const thrown = await call("beta", "thrown", { n: -1 });
    expect([thrown.body.state, (await call("beta", "thrown", { n: -1 })).body.id]).toEqual(["failed", thrown.body.id]);
  });

  test("a request with the key of a call that runs says when to send it again", async () => {
    const { body: me } = await api<{ keyId: string }>("GET", "/v1/me");
    const caller = { tenantId: "acme", keyId: me.keyId, now: Date.now() };
    await insertOnce(database.db, toNewRow({ toolName: "echo", input: {}, idempotencyKey: "open" }, caller, "sync"));
    const open = (await call("acme", "open")) as unknown as { status: number; headers: Headers; body: Failed };
    expect([open.status, open.headers.get("retry-after"), open.body.error.code]).toEqual([409, "1", "CONFLICT"]);
    expect(open.body.error.message).toContain("Send the same request again later");
    const other = await call("acme", "open", { n: 1 });
    expect([other.status, other.headers.get("retry-after")]).toEqual([409, null]);
  });

  test("the same request of another key gets neither the output nor a second call", async () => {
    const path = "/v1/tenants/acme/tools/echo/calls";
    const first = await call("acme", "mine", { n: 5 });
    expect([first.status, first.body.output]).toEqual([200, 5]);
    const send = (headers: object) =>
      restricted<Failed & Partial<Items>>("POST", path, { input: { n: 5 } }, { "idempotency-key": "mine", ...headers });
    for (const headers of [{}, { prefer: "respond-async" }]) {
      const { status, body } = await send(headers);
      expect([status, body.error?.code, JSON.stringify(body).includes(first.body.id)]).toEqual([
        409,
        "CONFLICT",
        false,
      ]);
      expect(body.error.message).toContain("by another API key or user");
    }
    const batch = { calls: [{ tool: "echo", input: { n: 5 }, idempotencyKey: "mine" }] };
    const { body: items } = await restricted<Items>("POST", "/v1/tenants/acme/calls", batch);
    expect(items.items.map(({ state, output }) => [state, output])).toEqual([["rejected", undefined]]);
    expect((await call("acme", "mine", { n: 5 })).body.id).toBe(first.body.id);

    const run = (send: typeof api) =>
      send<{ id: string; error?: object }>(
        "POST",
        "/v1/tenants/acme/runs",
        { tool: "echo" },
        { "idempotency-key": "r" },
      );
    const own = await run(api);
    expect([(await run(restricted)).status, (await run(api)).body.id]).toEqual([409, own.body.id]);
  });

  test("a batch returns a conflict as the result of one call, and the results of the others", async () => {
    const caller = { tenantId: "acme", keyId: "k", now: Date.now() };
    await insertOnce(database.db, toNewRow({ toolName: "echo", input: {}, idempotencyKey: "used" }, caller, "sync"));
    const calls = [
      { tool: "echo", input: { n: 1 } },
      { tool: "echo", input: {}, idempotencyKey: "used" },
      { tool: "echo", input: { n: 3 }, idempotencyKey: "free" },
    ];
    const { status, body } = await api<Items>("POST", "/v1/tenants/acme/calls", { calls });
    expect([status, body.items.map(({ state }) => state)]).toEqual([200, ["succeeded", "rejected", "succeeded"]]);
    expect(body.items.map(({ output }) => output)).toEqual([1, undefined, 3]);
    expect(body.items[1]).toMatchObject({ tool: "echo", error: { code: "CONFLICT" } });
  });

  test("no call of a batch begins if one of them is not allowed", async () => {
    const listed = async () =>
      (await api<Items>("GET", "/v1/tenants/acme/calls?tool=echo&limit=200")).body.items.length;
    const before = await listed();
    const calls = [{ tool: "echo" }, { tool: "echo", approve: true }];
    expect((await restricted("POST", "/v1/tenants/acme/calls", { calls })).status).toBe(403);
    const one = { calls: [{ tool: "echo" }] };
    const keyed = await api<Failed>("POST", "/v1/tenants/acme/calls", one, { "idempotency-key": "k" });
    expect([keyed.status, keyed.body.error.message]).toEqual([422, expect.stringContaining("calls.0.idempotencyKey")]);
    expect(await listed()).toBe(before);
  });

  test("a call runs whose connection to the database was lost after the COMMIT of its key", async () => {
    const { db } = database;
    let isLost = false;
    const losing = new Proxy(db, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (name !== "transaction" || isLost) return typeof value === "function" ? value.bind(target) : value;
        return () => ({
          execute: async (run: (transaction: Db) => Promise<unknown>) => {
            isLost = true;
            await target.transaction().execute(run);
            throw new Error("Connection terminated unexpectedly");
          },
        });
      },
    });
    let runs = 0;
    const direct = new DirectCalls({
      database: { ...database, db: losing },
      admission: { admit: async () => ({}) },
      runner: {
        execute: async () => {
          runs += 1;
          return {} as ToolResult;
        },
        stream: async () => expect.fail("It is no stream"),
        ended: async (ended) => ({ ...ended, parts: null }),
        starting: new StartingCalls(),
      },
      forwarded: { begin: () => expect.fail("It has no session") },
      onError: (error) => expect.fail(String(error)),
    });
    const tenant = (await findTenant(db, "acme")) as TenantRecord;
    const caller = { tenant, keyId: "key" };
    const request = { toolName: "echo", input: {}, idempotencyKey: "committed" };
    const begin = async (): Promise<DirectAnswer> => {
      const row = toNewRow(request, { tenantId: "acme", keyId: "key", now: Date.now() }, "sync");
      return await direct.run({ row, request, caller });
    };
    const { ended } = (await begin()) as { readonly ended: CallRow };
    const stored = await findByKey(db, { tenant_id: "acme", idempotency_key: "committed" });
    expect([isLost, runs, stored?.id]).toEqual([true, 1, ended.id]);
    // Another request with the key does not run.
    await expect(begin()).rejects.toThrow("The call with this Idempotency-Key has not ended");
    expect(runs).toBe(1);
  });

  test("a client cannot use the key of a schedule's run", async () => {
    const dueAt = Date.now() + 3_600_000;
    await insertSchedule(database.db, {
      id: "schedule_1",
      tenant_id: "gamma",
      name: "n",
      tool_name: "echo",
      alias: "live",
      input: "{}",
      cron: "0 * * * *",
      time_zone: "UTC",
      overlap: "queue",
      catch_up: "latest",
      state: "active",
      created_by: "key",
      next_at: dueAt,
      last_at: null,
      last_call_id: null,
      skipped: 0,
      created_at: 1,
      updated_at: 1,
    });
    expect((await call("gamma", `schedule_1:${dueAt}`)).status).toBe(200);
    expect((await call("gamma", `/schedule_1:${dueAt}`)).status).toBe(422);
    const inBatch = { calls: [{ tool: "echo", idempotencyKey: `/schedule_1:${dueAt}` }] };
    expect((await api("POST", "/v1/tenants/gamma/calls", inBatch)).status).toBe(422);
    const tenant = (await findTenant(database.db, "gamma")) as TenantRecord;
    const notified: string[] = [];
    const keys: (string | undefined)[] = [];
    const scheduler = new Scheduler({
      db: database.db,
      calls: {
        toQueuedRow: (request) => {
          keys.push(request.idempotencyKey);
          const row = toNewRow(request, { tenantId: tenant.id, keyId: "schedule_1", now: dueAt }, "async");
          return { ...row, state: "queued", input: "{}", run_at: dueAt + 3_600_000 };
        },
        notify: (ids) => void notified.push(...ids),
      },
      onError: (error) => expect.fail(String(error)),
      now: () => dueAt,
    });
    await scheduler.runDue();
    const last = (await findSchedule(database.db, "gamma", "schedule_1"))?.last_call_id;
    expect([keys.length, notified]).toEqual([1, [last]]);
    // A time that a call has already is not added again, and changes nothing of what the schedule shows.
    const again = { next_at: dueAt, last_call_id: null };
    await database.db.updateTable("schedules").set(again).where("id", "=", "schedule_1").execute();
    await scheduler.runDue();
    expect(keys[1]).toBe(keys[0]);
    expect([notified.length, (await findSchedule(database.db, "gamma", "schedule_1"))?.last_call_id]).toEqual([
      1,
      null,
    ]);
  });
});

test("the key of a call whose server was killed has a result as soon as the next server has started", async () => {
  const { options } = await stores.create("sqlite");
  const tools = "/v1/tenants/acme/tools";
  const headers = { "idempotency-key": "lost" };
  const first = await startKillableServer(options);
  const api = apiOf(first);
  expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
  const source = "export default async () => { for (;;) await new Promise((resolve) => setTimeout(resolve, 50)); }";
  const limits = { timeoutMs: 300_000 };
  expect((await api("POST", tools, { name: "endless", source, limits })).status).toBe(201);
  const lost = api("POST", `${tools}/endless/calls`, {}, headers).catch(() => undefined);
  await vi.waitFor(
    async () => {
      const { items } = (await api<Items>("GET", "/v1/tenants/acme/calls")).body;
      expect(items.map(({ state }) => state)).toEqual(["running"]);
    },
    { timeout: 60_000 },
  );
  await first.kill();
  expect(await lost).toBeUndefined();
  const second = await startKillableServer(options);
  const again = apiOf({ url: second.url, adminKey: first.adminKey });
  await vi.waitFor(
    async () => {
      const { body } = await again<Call & { effects: string }>("POST", `${tools}/endless/calls`, {}, headers);
      expect([body.state, body.effects, body.error?.code]).toEqual(["failed", "possible", "SANDBOX_CRASHED"]);
    },
    { timeout: 120_000, interval: 200 },
  );
});
