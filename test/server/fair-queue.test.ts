// The queue in the database takes turns among tenants, and limits the calls of each that wait. On both databases.
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { CallQueue } from "../../src/server/calls/queue/call-queue.ts";
import { divideSlots } from "../../src/server/calls/queue/divide-slots.ts";
import { type Db, openDatabase } from "../../src/server/database/open-database.ts";
import { createServer } from "../../src/server/index.ts";
import { listWaitingTenants } from "../../src/server/records/calls/call-claims.ts";
import type { CallOutcome } from "../../src/server/records/calls/call-outcomes.ts";
import { type CallRow, insertCalls } from "../../src/server/records/calls/calls.ts";
import { findSchedule, insertSchedule } from "../../src/server/records/events/schedules.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { Scheduler } from "../../src/server/schedules/scheduler.ts";
import { apiOf } from "./support/api.ts";
import { endedRow } from "./support/call-row.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
const patiently = { timeout: 120_000, interval: 20 };

/** Returns a call that waits in the queue. @param runAt ms since 1970 */
const queuedRow = (tenantId: string, runAt: number): CallRow =>
  endedRow(1_000, {
    tenant_id: tenantId,
    mode: "async",
    state: "queued",
    effects: "none",
    output: null,
    ended_at: null,
    started_at: null,
    attempts: 0,
    run_at: runAt,
  });
const outcome: CallOutcome = {
  state: "succeeded",
  effects: "complete",
  tool_version: 1,
  input: "{}",
  output: "1",
  error: null,
  logs: null,
  usage: null,
  calls: null,
  timeline: null,
  ended_at: 1,
};

test("free places go to the tenants that have the fewest calls, up to the most of a tenant", () => {
  const counts = fc.dictionary(fc.constantFrom("a", "b", "c", "d", "e"), fc.nat(30));
  fc.assert(
    fc.property(counts, fc.nat(32), fc.integer({ min: 1, max: 24 }), (running, free, most) => {
      const waiting = Object.keys(running);
      const shares = divideSlots(waiting, new Map(Object.entries(running)), { free, maxPerTenant: most });
      const after = waiting.map((id) => ({
        gets: shares.get(id) ?? 0,
        has: (running[id] ?? 0) + (shares.get(id) ?? 0),
      }));
      const given = after.reduce((sum, { gets }) => sum + gets, 0);
      const room = waiting.reduce((sum, id) => sum + Math.max(0, most - (running[id] ?? 0)), 0);
      expect(given).toBe(Math.min(free, room));
      for (const one of after.filter(({ gets }) => gets > 0)) {
        expect(one.has).toBeLessThanOrEqual(most);
        // No other tenant could have had one of its places more fairly.
        for (const other of after) expect(other.has).toBeGreaterThanOrEqual(Math.min(one.has - 1, most));
      }
    }),
  );
});

describe.for(STORES)("with %s", (kind) => {
  /** Opens a database with a queue whose calls run until they are released. */
  async function openQueue(tenants: readonly string[]) {
    const store = await stores.create(kind);
    const { dataDir, database: url } = store.options;
    const database = await openDatabase({ url, dataDir, onError() {} });
    const { db } = database;
    for (const id of tenants) await insertTenant(db, { id, name: id, policy: TenantPolicySchema.parse({}) });
    const running = new Map<string, { readonly tenantId: string; readonly end: () => void }>();
    const queue = new CallQueue({
      db,
      kind,
      now: () => 10_000,
      onError: (error) => expect.fail(String(error)),
      run: async (row) => {
        const { promise, resolve } = Promise.withResolvers<void>();
        running.set(row.id, { tenantId: row.tenant_id, end: resolve });
        await promise;
        running.delete(row.id);
        return { success: true } as never;
      },
      toStored: async () => ({ outcome }),
      isIdempotent: async () => false,
    });
    const counts = (): Record<string, number> =>
      Object.fromEntries(tenants.map((id) => [id, [...running.values()].filter((one) => one.tenantId === id).length]));
    const end = (tenantId: string, count: number): void => {
      for (const one of [...running.values()].filter((each) => each.tenantId === tenantId).slice(0, count)) one.end();
    };
    const close = async (): Promise<void> => {
      const draining = queue[Symbol.asyncDispose]();
      for (const one of running.values()) one.end();
      await draining;
      await database[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    };
    return { db, queue, counts, end, [Symbol.asyncDispose]: close };
  }
  const add = (db: Db, tenantId: string, count: number, runAt: number): Promise<void> =>
    insertCalls(
      db,
      Array.from({ length: count }, () => queuedRow(tenantId, runAt)),
    );

  test("a tenant with many waiting calls does not keep other tenants out", async () => {
    await using opened = await openQueue(["acme", "beta", "gamma"]);
    const { db, queue, counts, end } = opened;
    await add(db, "acme", 100, 1);
    queue.start();
    // Some places are left, although the calls of this tenant could use them.
    await expect.poll(counts, patiently).toEqual({ acme: 24, beta: 0, gamma: 0 });
    await add(db, "beta", 1, 3);
    queue.notify([]);
    await expect.poll(counts, patiently).toEqual({ acme: 24, beta: 1, gamma: 0 });
    await add(db, "beta", 40, 3);
    queue.notify([]);
    await expect.poll(counts, patiently).toEqual({ acme: 24, beta: 8, gamma: 0 });
    // Both have older calls, and one place is free.
    await add(db, "gamma", 1, 4);
    end("beta", 1);
    await expect.poll(counts, patiently).toEqual({ acme: 24, beta: 7, gamma: 1 });
    // The tenant with the fewest calls gets what others leave.
    end("acme", 6);
    await expect.poll(counts, patiently).toEqual({ acme: 18, beta: 13, gamma: 1 });
  });

  test("tenants with calls that are due are listed in parts, however many calls each has", async () => {
    await using opened = await openQueue(["a", "b", "c", "d"]);
    const { db } = opened;
    for (const id of ["a", "b", "d"]) await add(db, id, 5, 1);
    await add(db, "c", 5, 20_000);
    const page = { now: 10_000, limit: 3 };
    const first = await listWaitingTenants(db, { ...page, after: "" });
    expect(first).toEqual({ tenants: ["a", "b"], next: "c" });
    expect(await listWaitingTenants(db, { ...page, after: first.next })).toEqual({ tenants: ["d"], next: "" });
    expect(await listWaitingTenants(db, { ...page, after: "d" })).toEqual({ tenants: [], next: "" });
  });

  test("a tenant queues at most policy.maxAsyncCalls calls", async () => {
    await using store = await stores.create(kind);
    await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    const api = apiOf(server);
    const base = "/v1/tenants/acme";
    expect((await api("POST", "/v1/tenants", { id: "acme", policy: { maxAsyncCalls: 4 } })).status).toBe(201);
    expect((await api("POST", "/v1/tenants", { id: "beta" })).body).not.toHaveProperty("policy.maxAsyncCalls");
    const { dataDir, database: url } = store.options;
    await using database = await openDatabase({ url, dataDir, onError() {} });
    const { db } = database;
    const later = Date.now() + 86_400_000;
    await insertCalls(
      db,
      Array.from({ length: 3 }, () => queuedRow("acme", later)),
    );
    const headers = { prefer: "respond-async" };
    const enqueue = (key?: string) =>
      api<{ id: string; error: { message: string; details: object } }>(
        ...(["POST", `${base}/tools/none/calls`, {}] as const),
        key === undefined ? headers : { ...headers, "idempotency-key": key },
      );
    // All or none of a batch.
    const calls = [{ tool: "none" }, { tool: "none" }];
    const batch = await api<{ error: { message: string } }>("POST", `${base}/calls`, { calls }, headers);
    expect([batch.status, batch.body.error.message]).toEqual([429, expect.stringContaining("policy.maxAsyncCalls")]);
    const known = await enqueue("known");
    expect(known.status).toBe(202);
    const ended = async () => (await api("GET", `${base}/calls/${known.body.id}`)).body.endedAt;
    await expect.poll(ended, patiently).not.toBeNull();
    await db.updateTable("calls").set({ state: "queued", run_at: later, ended_at: null }).execute();
    await expect.poll(async () => (await enqueue()).status, patiently).toBe(429);
    const full = await enqueue();
    expect([full.status, full.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(full.body.error.message).toContain("policy.maxAsyncCalls");
    expect(full.body.error.details).toMatchObject({ limit: "maxAsyncCalls", allowed: 4, used: 4 });
    // A repeated request adds no call.
    expect(await enqueue("known")).toMatchObject({ status: 202, body: { id: known.body.id } });
    expect((await api("POST", `/v1/tenants/beta/tools/none/calls`, {}, headers)).status).toBe(202);
    // A run of a schedule is skipped.
    await insertSchedule(db, {
      id: "schedule_1",
      tenant_id: "acme",
      name: "n",
      tool_name: "none",
      alias: "live",
      input: "{}",
      cron: "0 * * * *",
      time_zone: "UTC",
      overlap: "queue",
      catch_up: "latest",
      state: "active",
      created_by: "key",
      next_at: later,
      last_at: null,
      last_call_id: null,
      skipped: 0,
      created_at: 1,
      updated_at: 1,
    });
    await using scheduler = new Scheduler({
      db,
      calls: { toQueuedRow: () => queuedRow("acme", later), notify() {} },
      onError: (error) => expect.fail(String(error)),
      now: () => later,
    });
    await scheduler.runDue();
    expect(await findSchedule(db, "acme", "schedule_1")).toMatchObject({ skipped: 1, last_call_id: null });
    await db.deleteFrom("calls").where("tenant_id", "=", "acme").execute();
    await expect.poll(async () => (await enqueue()).status, patiently).toBe(202);
  });
});
