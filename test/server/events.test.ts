// Schedules, webhooks, triggers and automatic rollback, on both databases.
import { createHmac } from "node:crypto";
import { createServer as createHttpServer, type Server as HttpServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { Webhook as Signer } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import type { SchedulesTable } from "../../src/server/database/tables/event-tables.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { findSchedule, insertSchedule } from "../../src/server/records/events/schedules.ts";
import { emitEvents, insertWebhook, listDeliveries } from "../../src/server/records/events/webhooks.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { findCronError, nextRunAfter, runsUntil } from "../../src/server/schedules/cron.ts";
import { Scheduler } from "../../src/server/schedules/scheduler.ts";
import { MasterKey } from "../../src/server/secrets/master-key.ts";
import { DeliveryQueue } from "../../src/server/webhooks/delivery-queue.ts";
import { apiOf } from "./support/api.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const at = (text: string): number => new Date(text).getTime();

describe("cron patterns", () => {
  test.for([
    ["*/15 * * * *", "UTC", "2026-01-01T00:07:00Z", "2026-01-01T00:15:00Z"],
    ["30 5 * * 1-5", "UTC", "2026-01-02T06:00:00Z", "2026-01-05T05:30:00Z"],
    ["0 9 * * *", "Europe/Berlin", "2026-01-01T00:00:00Z", "2026-01-01T08:00:00Z"],
    ["0 9 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z", "2026-07-01T07:00:00Z"],
    // 02:30 does not exist on this day.
    ["30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"],
    ["0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"],
    ["*/10 * * * * *", "UTC", "2026-01-01T00:00:01Z", "2026-01-01T00:00:10Z"],
    ["@daily", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"],
  ] as const)("%s in %s after %s is %s", ([cron, timeZone, after, next]) => {
    expect(nextRunAfter({ cron, timeZone }, at(after))).toBe(at(next));
  });

  test("a time that exists twice on a day is run once", () => {
    const times = { cron: "30 2 * * *", timeZone: "Europe/Berlin" };
    const first = nextRunAfter(times, at("2026-10-24T12:00:00Z")) as number;
    const second = nextRunAfter(times, first) as number;
    expect(second - first).toBeGreaterThan(23 * HOUR_MS);
  });

  test.for([
    ["* * *", "UTC", "cron: Expected five fields"],
    ["61 * * * *", "UTC", "cron: A field has an invalid value"],
    ["0 0 30 2 *", "UTC", "cron: "],
    ["* * * * *", "Mars/Olympus", "timeZone: Expected the name of a time zone"],
    ["", "UTC", "cron: Expected five fields"],
    ["2026-01-01T00:00:00", "UTC", "cron: "],
  ] as const)("rejects %j in %s", ([cron, timeZone, message]) => {
    expect(findCronError({ cron, timeZone })).toContain(message);
  });

  test("runs are in order, after the time, and none is left out", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("*/5 * * * *", "7 */3 * * *", "0 12 * * 1", "15 10 1 * *"),
        fc.constantFrom("UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"),
        fc.integer({ min: at("2026-01-01T00:00:00Z"), max: at("2027-01-01T00:00:00Z") }),
        (cron, timeZone, start) => {
          const times = { cron, timeZone };
          const first = nextRunAfter(times, start) as number;
          expect(first).toBeGreaterThan(start);
          // Nothing between the start and the first run.
          expect(nextRunAfter(times, first - 1)).toBe(first);
          const runs = runsUntil(times, first, first + 40 * HOUR_MS);
          expect(runs).toEqual(runs.toSorted((a, b) => a - b));
          expect(new Set(runs).size).toBe(runs.length);
        },
      ),
      { numRuns: 100 },
    );
  });
});

test("the missed runs of a pattern for every second are the latest ones, also after a year", () => {
  const now = at("2026-06-01T00:00:00.500Z");
  const times = { cron: "* * * * * *", timeZone: "Europe/Berlin" };
  const runs = runsUntil(times, now - 365 * 24 * HOUR_MS, now);
  expect([runs.length, runs[0], runs.at(-1)]).toEqual([100, now - 500 - 99_000, now - 500]);
  expect(runsUntil(times, now - 365 * 24 * HOUR_MS, now, 1)).toEqual([now - 500]);
});

describe.for(STORES)("with %s", (kind) => {
  let store: TestStore;
  let server: Server;
  let api: ReturnType<typeof apiOf>;
  let receiver: HttpServer;
  let origin: string;
  const received: { readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: string }[] = [];
  /** Statuses of the next responses to requests for `/gone`; then 200. */
  const statuses: number[] = [];
  const tenant = "/v1/tenants/acme";

  beforeAll(async () => {
    receiver = createHttpServer((request, response) => {
      let body = "";
      request.on("data", (chunk) => {
        body += chunk;
      });
      request.on("end", () => {
        received.push({ path: request.url ?? "", headers: request.headers, body });
        if (request.url === "/moved") response.writeHead(302, { location: `${origin}/elsewhere` });
        else response.statusCode = (request.url === "/gone" ? statuses.shift() : undefined) ?? 200;
        response.end("the receiver's own text");
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
    origin = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
    store = await stores.create(kind);
    server = await createServer({ ...store.options, port: 0, logLevel: "silent", webhookAddresses: ["127.0.0.1"] });
    api = apiOf(server);
    expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
  });
  afterAll(async () => {
    await server.close({ drainMs: 0 });
    receiver.close();
    await store[Symbol.asyncDispose]();
  });

  const deploy = (name: string, source: string) => api("POST", `${tenant}/tools`, { name, source });
  const items = async (path: string): Promise<readonly { readonly [name: string]: unknown }[]> =>
    (await api<{ items: [] }>("GET", `${tenant}${path}`)).body.items;

  test("a webhook receives signed events of its tenant, and of no other", async () => {
    const created = await api("POST", `${tenant}/webhooks`, {
      url: `${origin}/a`,
      events: ["call.failed", "version.deployed"],
    });
    expect([created.status, created.body.secret]).toEqual([201, expect.stringMatching(/^whsec_/)]);
    await api("POST", "/v1/tenants", { id: "other" });
    await api("POST", "/v1/tenants/other/tools", { name: "theirs", source: "export default () => 1" });
    await deploy("fails", "export default () => { throw new Error('no') }");
    await api("POST", `${tenant}/tools/fails/calls`, { input: { password: "hunter2hunter2" } });
    await expect.poll(() => received.filter(({ path }) => path === "/a").length).toBe(2);
    const bodies = received.map(({ headers, body }) => {
      const verified = new Signer(created.body.secret as string).verify(body, headers as Record<string, string>);
      return verified as { type: string; timestamp: string; data: { tool: string; error?: { code: string } } };
    });
    expect(bodies.map(({ type, data }) => [type, data.tool])).toEqual(
      expect.arrayContaining([
        ["version.deployed", "fails"],
        ["call.failed", "fails"],
      ]),
    );
    expect(JSON.stringify(received)).not.toContain("hunter2");
    const deliveries = () => items(`/webhooks/${created.body.id}/deliveries`);
    // The outcome is stored after the receiver has answered.
    await expect
      .poll(async () => (await deliveries()).map(({ state, status, attempts }) => [state, status, attempts]))
      .toEqual([
        ["delivered", 200, 1],
        ["delivered", 200, 1],
      ]);
    expect(JSON.stringify(await deliveries())).not.toContain("the receiver's own text");
    expect(JSON.stringify(await items("/webhooks"))).not.toContain(created.body.secret);
  });

  test("a webhook follows no redirect", async () => {
    await deploy("redirected", "export default () => { throw new Error('no'); };");
    const created = await api<{ id: string }>("POST", `${tenant}/webhooks`, {
      url: `${origin}/moved`,
      events: ["call.failed"],
    });
    const path = `/webhooks/${created.body.id}`;
    await api("POST", `${tenant}/tools/redirected/calls`, {});
    await expect.poll(async () => (await items(`${path}/deliveries`))[0]?.status).toBe(302);
    expect(received.some((one) => one.path === "/elsewhere")).toBe(false);
    await api("DELETE", `${tenant}${path}`);
  });

  test("a webhook that answers 410 is disabled, and a delivery can be sent again", async () => {
    const { body } = await api("POST", `${tenant}/webhooks`, { url: `${origin}/gone`, events: ["quota.warning"] });
    const path = `${tenant}/webhooks/${body.id}`;
    statuses.push(410);
    const sent = await api("POST", `${path}/test`);
    expect(sent.status).toBe(202);
    const stateOf = async () => (await items(`/webhooks/${body.id}/deliveries`))[0]?.state;
    await expect.poll(stateOf).toBe("failed");
    expect((await items("/webhooks")).find(({ id }) => id === body.id)?.state).toBe("disabled");
    expect((await api("PATCH", path, { state: "active" })).status).toBe(200);
    expect((await api("POST", `${path}/deliveries/${sent.body.id}/redeliver`)).status).toBe(202);
    const audit = await api<{ items: readonly { action: string; target: string; details: object }[] }>(
      ...(["GET", `${tenant}/audit`] as const),
    );
    const webhookId = path.split("/").at(-1);
    for (const [action, details] of [
      ["webhook.tested", {}],
      ["webhook.redelivered", { deliveryId: sent.body.id }],
    ] as const)
      expect(audit.body.items).toContainEqual(expect.objectContaining({ action, target: webhookId, details }));
    await expect.poll(stateOf).toBe("delivered");
    // Every attempt has the id of the delivery, so that a receiver can recognize it.
    const ids = received.filter((one) => one.path === "/gone").map(({ headers }) => headers["webhook-id"]);
    expect(new Set(ids)).toEqual(new Set([sent.body.id]));
  });

  test.for(["http://127.0.0.2:1/", "http://[::1]:1/", "http://169.254.169.254/latest", "http://10.0.0.1/"])(
    "a webhook does not reach %s",
    async (url) => {
      const given = { url: "https://hooks.invalid/", events: ["quota.warning"] };
      const { body } = await api("POST", `${tenant}/webhooks`, given);
      // As one that was created when the operator allowed the address.
      const { dataDir, database: databaseUrl } = store.options;
      await using database = await openDatabase({ dataDir, url: databaseUrl, onError() {} });
      await database.db
        .updateTable("webhooks")
        .set({ url })
        .where("id", "=", body.id as string)
        .execute();
      await api("POST", `${tenant}/webhooks/${body.id}/test`);
      await expect.poll(async () => (await items(`/webhooks/${body.id}/deliveries`))[0]?.error).toContain("not public");
      await api("DELETE", `${tenant}/webhooks/${body.id}`);
    },
  );

  test("a failed delivery is repeated with growing delays, and ends as failed", async () => {
    const own = await stores.create(kind);
    const { dataDir, database: url } = own.options;
    await using database = await openDatabase({ dataDir, url, onError() {} });
    await insertTenant(database.db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
    const masterKey = new MasterKey(Buffer.alloc(32, 7));
    const id = "webhook_1";
    const key = { tenantId: "acme", webhookId: id };
    await insertWebhook(database.db, {
      id,
      tenant_id: "acme",
      url: "https://receiver.example/",
      events: '["call.failed"]',
      state: "active",
      sealed_secret: masterKey.seal(`whsec_${Buffer.alloc(32).toString("base64")}`, {
        table: "webhooks",
        tenantId: "acme",
        name: id,
      }),
      created_by: "key",
      created_at: 1,
      updated_at: 1,
    });
    const sentAt: number[] = [];
    const queue = new DeliveryQueue({
      database,
      masterKey,
      addresses: [],
      onError: (error) => expect.fail(String(error)),
      delays: [10, 20],
      send: async () => {
        sentAt.push(performance.now());
        throw new Error("refused");
      },
    });
    await emitEvents(database.db, [{ tenantId: "acme", type: "call.failed", data: {} }]);
    queue.start();
    await expect.poll(async () => (await listDeliveries(database.db, key, { limit: 1 }))[0]?.state).toBe("failed");
    await queue[Symbol.asyncDispose]();
    expect(sentAt).toHaveLength(3);
    const [row] = await listDeliveries(database.db, key, { limit: 1 });
    expect(row).toMatchObject({ attempts: 3, error: "refused", status: null });
    await own[Symbol.asyncDispose]();
  });

  test("a delivery whose signing secret cannot be read ends as failed, and says why", async () => {
    const own = await stores.create(kind);
    const { dataDir, database: url } = own.options;
    await using database = await openDatabase({ dataDir, url, onError() {} });
    await insertTenant(database.db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
    const before = new MasterKey(Buffer.alloc(32, 6));
    const id = "webhook_1";
    await insertWebhook(database.db, {
      id,
      tenant_id: "acme",
      url: "https://receiver.example/",
      events: '["call.failed"]',
      state: "active",
      sealed_secret: before.seal("whsec_secret", { table: "webhooks", tenantId: "acme", name: id }),
      created_by: "key",
      created_at: 1,
      updated_at: 1,
    });
    const errors: unknown[] = [];
    const queue = new DeliveryQueue({
      database,
      masterKey: new MasterKey(Buffer.alloc(32, 7)),
      addresses: [],
      delays: [10],
      onError: (error) => errors.push(error),
      send: () => Promise.reject(new Error("Nothing may be sent")),
    });
    await emitEvents(database.db, [{ tenantId: "acme", type: "call.failed", data: {} }]);
    queue.start();
    const find = async () => (await listDeliveries(database.db, { tenantId: "acme", webhookId: id }, { limit: 1 }))[0];
    await expect.poll(async () => (await find())?.state).toBe("failed");
    await queue[Symbol.asyncDispose]();
    expect(await find()).toMatchObject({
      attempts: 2,
      status: null,
      error: "The signing secret cannot be read with the server's master key: create the webhook again",
    });
    expect(errors).toHaveLength(2);
    await own[Symbol.asyncDispose]();
  });

  test("at most four deliveries of a tenant are sent at a time, also when some of them have ended", async () => {
    const own = await stores.create(kind);
    const { dataDir, database: url } = own.options;
    await using database = await openDatabase({ dataDir, url, onError() {} });
    const masterKey = new MasterKey(Buffer.alloc(32, 7));
    const tenants = ["acme", "beta"];
    for (const tenantId of tenants) {
      await insertTenant(database.db, { id: tenantId, name: tenantId, policy: TenantPolicySchema.parse({}) });
      const id = `webhook_${tenantId}`;
      const secret = `whsec_${Buffer.alloc(32).toString("base64")}`;
      await insertWebhook(database.db, {
        id,
        tenant_id: tenantId,
        url: "https://receiver.example/",
        events: '["call.failed"]',
        state: "active",
        sealed_secret: masterKey.seal(secret, { table: "webhooks", tenantId, name: id }),
        created_by: "key",
        created_at: 1,
        updated_at: 1,
      });
      const events = Array.from({ length: 20 }, (_, index) => ({
        tenantId,
        type: "call.failed" as const,
        data: { index },
      }));
      await emitEvents(database.db, events);
    }
    const open = new Map<string, (() => void)[]>(tenants.map((tenantId) => [tenantId, []]));
    let most = 0;
    let sent = 0;
    await using queue = new DeliveryQueue({
      database,
      masterKey,
      addresses: [],
      onError: (error) => expect.fail(String(error)),
      send: async ({ tenantId = "" }) => {
        const waiting = open.get(tenantId) ?? [];
        sent += 1;
        await new Promise<void>((resolve) => {
          waiting.push(resolve);
          most = Math.max(most, waiting.length);
        });
        return { status: 200, headers: {}, body: new Uint8Array() } as never;
      },
    });
    queue.start();
    await expect.poll(() => sent, { timeout: 30_000 }).toBe(8);
    for (let ended = 1; ended <= 12; ended += 1) {
      open.get("acme")?.shift()?.();
      await expect.poll(() => sent, { timeout: 30_000 }).toBeGreaterThanOrEqual(8 + ended);
    }
    for (const waiting of open.values()) for (const end of waiting.splice(0)) end();
    expect(most).toBe(4);
    await own[Symbol.asyncDispose]();
  });

  test("a schedule calls its tool, and says when it runs next", async () => {
    await deploy("tick", "export default (input) => input");
    const { status, body } = await api("POST", `${tenant}/schedules`, {
      name: "often",
      tool: "tick",
      cron: "* * * * * *",
      input: { from: "schedule" },
    });
    expect([status, body.timeZone, body.overlap, body.catchUp]).toEqual([201, "UTC", "skip", "latest"]);
    await expect.poll(async () => (await items("/calls?tool=tick&state=succeeded")).length).toBeGreaterThanOrEqual(2);
    const calls = await items("/calls?tool=tick");
    expect(calls[0]).toMatchObject({ mode: "async", keyId: body.id, input: { from: "schedule" } });
    const paused = await api("PATCH", `${tenant}/schedules/${body.id}`, { state: "paused" });
    expect(paused.body.state).toBe("paused");
    expect((await api("DELETE", `${tenant}/schedules/${body.id}`)).status).toBe(200);
    expect((await api("GET", `${tenant}/schedules/${body.id}`)).status).toBe(404);
  });

  test("a change of a schedule keeps a run that is due, unless it concerns when runs start", async () => {
    await deploy("yearly", "export default (input) => input");
    const { dataDir, database: url } = store.options;
    await using database = await openDatabase({ dataDir, url, onError() {} });
    const { db } = database;
    const schedule = { name: "yearly", tool: "yearly", cron: "0 0 1 1 *" };
    const { body } = await api("POST", `${tenant}/schedules`, schedule);
    const path = `${tenant}/schedules/${body.id}`;
    const nextAt = async () => (await findSchedule(db, "acme", String(body.id)))?.next_at;
    // Any time that the cron expression does not have stands for one that is due.
    const due = Date.now() + 10 * 86_400_000 + 1;
    await db.updateTable("schedules").set({ next_at: due }).where("id", "=", String(body.id)).execute();
    for (const change of [{ input: { n: 1 } }, { overlap: "queue" }, { catchUp: "all" }, { state: "active" }]) {
      expect((await api("PATCH", path, change)).status).toBe(200);
      expect(await nextAt()).toBe(due);
    }
    expect((await api("PATCH", path, { state: "paused" })).status).toBe(200);
    expect(await nextAt()).not.toBe(due);
    expect((await api("DELETE", path)).status).toBe(200);
  });

  test("rejects schedules that cannot run, and names that are taken", async () => {
    const post = (more: object) =>
      api("POST", `${tenant}/schedules`, { name: "n", tool: "tick", cron: "0 0 * * *", ...more });
    expect((await post({ cron: "never" })).status).toBe(422);
    expect((await post({ timeZone: "Nowhere" })).status).toBe(422);
    expect((await post({ name: "taken" })).status).toBe(201);
    expect((await post({ name: "taken" })).status).toBe(409);
  });

  test.for([
    ["none", 3.5 * HOUR_MS, 0],
    ["latest", 3.5 * HOUR_MS, 1],
    ["all", 3.5 * HOUR_MS, 4],
    ["none", 10_000, 1],
  ] as const)("with catchUp %s and a server that is %i ms late, %i runs start", async ([catchUp, late, expected]) => {
    const own = await stores.create(kind);
    const { dataDir, database: url } = own.options;
    await using database = await openDatabase({ dataDir, url, onError() {} });
    const { db } = database;
    await insertTenant(db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
    const dueAt = at("2026-01-01T10:00:00Z");
    const row: SchedulesTable = {
      id: "schedule_1",
      tenant_id: "acme",
      name: "n",
      tool_name: "t",
      alias: "live",
      input: "{}",
      cron: "0 * * * *",
      time_zone: "UTC",
      overlap: "queue",
      catch_up: catchUp,
      state: "active",
      created_by: "key",
      next_at: dueAt,
      last_at: null,
      last_call_id: null,
      skipped: 0,
      created_at: 1,
      updated_at: 1,
    };
    await insertSchedule(db, row);
    // Several servers start at the same time.
    const schedulers = [1, 2, 3].map(
      () =>
        new Scheduler({
          db,
          calls: { toQueuedRow: (request, caller) => toRow(request.idempotencyKey, caller.keyId), notify() {} },
          onError: (error) => expect.fail(String(error)),
          now: () => dueAt + late,
        }),
    );
    await Promise.all(schedulers.map((scheduler) => scheduler.runDue()));
    const calls = await db.selectFrom("calls").select("idempotency_key").orderBy("idempotency_key").execute();
    expect(calls).toHaveLength(expected);
    const next = (await findSchedule(db, "acme", "schedule_1"))?.next_at;
    expect(next).toBe(at("2026-01-01T10:00:00Z") + (Math.floor(late / HOUR_MS) + 1) * HOUR_MS);
    await own[Symbol.asyncDispose]();
  });

  test("skips a run while the one before has not ended", async () => {
    const own = await stores.create(kind);
    const { dataDir, database: url } = own.options;
    await using database = await openDatabase({ dataDir, url, onError() {} });
    const { db } = database;
    await insertTenant(db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
    let now = at("2026-01-01T10:00:00Z");
    await insertSchedule(db, {
      id: "schedule_1",
      tenant_id: "acme",
      name: "n",
      tool_name: "t",
      alias: "live",
      input: "{}",
      cron: "* * * * *",
      time_zone: "UTC",
      overlap: "skip",
      catch_up: "all",
      state: "active",
      created_by: "key",
      next_at: now,
      last_at: null,
      last_call_id: null,
      skipped: 0,
      created_at: 1,
      updated_at: 1,
    });
    const scheduler = new Scheduler({
      db,
      calls: { toQueuedRow: (request, caller) => toRow(request.idempotencyKey, caller.keyId), notify() {} },
      onError: (error) => expect.fail(String(error)),
      now: () => now,
    });
    await scheduler.runDue();
    now += MINUTE_MS;
    await scheduler.runDue();
    expect(await db.selectFrom("calls").select("id").execute()).toHaveLength(1);
    expect((await findSchedule(db, "acme", "schedule_1"))?.skipped).toBe(1);
    await db.updateTable("calls").set({ state: "succeeded", ended_at: now }).execute();
    now += MINUTE_MS;
    await scheduler.runDue();
    expect(await db.selectFrom("calls").select("id").execute()).toHaveLength(2);
    await own[Symbol.asyncDispose]();
  });

  test("schedules that fail delay no other one, and are tried again", async () => {
    const own = await stores.create(kind);
    const { dataDir, database: url } = own.options;
    await using database = await openDatabase({ dataDir, url, onError() {} });
    const { db } = database;
    await insertTenant(db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
    const now = at("2026-01-01T10:00:00Z");
    const rowOf = (id: string, input: string, dueAt: number): SchedulesTable => ({
      id,
      tenant_id: "acme",
      name: id,
      tool_name: "t",
      alias: "live",
      input,
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
    const broken = Array.from({ length: 200 }, (_, index) => rowOf(`schedule_${index}`, "{", now - HOUR_MS));
    await db
      .insertInto("schedules")
      .values([...broken, rowOf("schedule_good", "{}", now)])
      .execute();
    let failures = 0;
    const scheduler = new Scheduler({
      db,
      calls: { toQueuedRow: (request, caller) => toRow(request.idempotencyKey, caller.keyId), notify() {} },
      onError() {
        failures += 1;
        if (failures > 1_000) throw new Error("The scheduler does not end");
      },
      now: () => now,
    });
    await scheduler.runDue();
    const calls = await db.selectFrom("calls").select("key_id").execute();
    expect([failures, calls]).toEqual([200, [{ key_id: "schedule_good" }]]);
    await db.updateTable("schedules").set({ input: "{}" }).execute();
    await scheduler.runDue();
    expect(await db.selectFrom("calls").select("id").execute()).toHaveLength(201);
    await own[Symbol.asyncDispose]();
  });

  test("a list leaves large inputs of schedules out, and a single schedule has its input", async () => {
    const input = { text: "x".repeat(20_000) };
    await deploy("sized", "export default () => 1");
    const plan = { tool: "sized", cron: "0 0 1 1 *" };
    const large = await api("POST", `${tenant}/schedules`, { ...plan, name: "large", input });
    const small = await api("POST", `${tenant}/schedules`, { ...plan, name: "small", input: { a: 1 } });
    const listed = (await items("/schedules")).filter(({ tool }) => tool === "sized");
    expect(listed).toMatchObject([
      { name: "large", input: null, omitted: true },
      { name: "small", input: { a: 1 }, omitted: false },
    ]);
    const path = `${tenant}/schedules/${large.body.id}`;
    expect((await api("PATCH", path, { state: "paused" })).body).toMatchObject({ input, omitted: false });
    expect((await api("GET", path)).body).toMatchObject({ state: "paused", input, omitted: false });
    for (const { body } of [large, small])
      expect((await api("DELETE", `${tenant}/schedules/${body.id}`)).status).toBe(200);
  });

  describe("a trigger", () => {
    let trigger: { readonly id: string; readonly path: string; readonly secret: string };
    const send = async (path: string, body: string, headers: Record<string, string>) =>
      await fetch(`${server.url}${path}`, { method: "POST", body, headers });
    const signed = (secret: string, id: string, body: string, when = new Date()) => ({
      "webhook-id": id,
      "webhook-timestamp": String(Math.floor(when.getTime() / 1_000)),
      "webhook-signature": new Signer(secret).sign(id, when, body),
    });

    beforeAll(async () => {
      await deploy("hook", "export default (input) => input");
      const created = await api("POST", `${tenant}/triggers`, { name: "orders", tool: "hook" });
      expect(created.status).toBe(201);
      trigger = created.body as never;
      expect(JSON.stringify(await items("/triggers"))).not.toContain(trigger.secret);
    });

    test("calls its tool once for each id, with the body as the input", async () => {
      const body = '{"order":7}';
      for (let count = 0; count < 3; count += 1)
        expect((await send(trigger.path, body, signed(trigger.secret, "msg_1", body))).status).toBe(202);
      await expect.poll(async () => (await items("/calls?tool=hook&state=succeeded")).length).toBe(1);
      const [call] = await items("/calls?tool=hook");
      expect(call).toMatchObject({ input: { order: 7 }, output: { order: 7 }, keyId: trigger.id });
    });

    test("answers 401 to every request without a valid signature, and to other triggers alike", async () => {
      const body = '{"order":8}';
      const old = new Date(Date.now() - 10 * MINUTE_MS);
      const wrong = `whsec_${Buffer.alloc(32, 9).toString("base64")}`;
      const attempts: [string, string, Record<string, string>][] = [
        [trigger.path, body, {}],
        [trigger.path, body, signed(wrong, "msg_2", body)],
        [trigger.path, '{"order":9}', signed(trigger.secret, "msg_2", body)],
        [trigger.path, body, { ...signed(trigger.secret, "msg_2", body), "webhook-id": "msg_3" }],
        [trigger.path, body, signed(trigger.secret, "msg_2", body, old)],
        [trigger.path, body, { "x-hub-signature-256": "sha256=00", "x-github-delivery": "1" }],
        [`/hooks/trigger_${"0".repeat(26)}`, body, signed(trigger.secret, "msg_2", body)],
      ];
      const replies = await Promise.all(
        attempts.map(async ([path, text, headers]) => {
          const response = await send(path, text, headers);
          const { error } = (await response.json()) as { error: { message: string } };
          return [response.status, error.message];
        }),
      );
      expect(new Set(replies.map(String)).size).toBe(1);
      expect(replies[0]?.[0]).toBe(401);
    });

    test("rejects a body that is not an object, and one that is too large", async () => {
      for (const [body, status] of [
        ["[]", 422],
        ["{", 400],
      ] as const)
        expect((await send(trigger.path, body, signed(trigger.secret, "msg_4", body))).status).toBe(status);
      const large = JSON.stringify({ text: "x".repeat(1024 * 1024) });
      expect((await send(trigger.path, large, signed(trigger.secret, "msg_5", large))).status).toBe(413);
    });

    test("verifies GitHub's signature", async () => {
      const secret = "a-secret-of-github-0123";
      const { body: github } = await api("POST", `${tenant}/triggers`, {
        name: "github",
        tool: "hook",
        verification: "github",
        secret,
      });
      const body = '{"ref":"main"}';
      const headers = {
        "x-github-delivery": "d-1",
        "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
      };
      expect((await send(github.path as string, body, headers)).status).toBe(202);
      expect((await send(github.path as string, `${body} `, headers)).status).toBe(401);
      // The signature does not cover the id, so a captured request with another id is the same request.
      const replayed = { ...headers, "x-github-delivery": "d-2" };
      expect((await send(github.path as string, body, replayed)).status).toBe(202);
      const made = await items("/calls?limit=200");
      expect(made.filter(({ keyId }) => keyId === github.id)).toHaveLength(1);
      await api("PATCH", `${tenant}/triggers/${github.id}`, { state: "paused" });
      expect((await send(github.path as string, body, headers)).status).toBe(401);
    });
  });

  test("a release goes back by itself when too many calls of a version fail", async () => {
    await deploy("flaky", "export default () => 'good'");
    await deploy("flaky", "export default () => { throw new Error('bad') }");
    const versions = [{ version: 2, weight: 100 }];
    const path = `${tenant}/tools/flaky/releases/live`;
    await api("PUT", path, { versions: [{ version: 1, weight: 100 }] });
    const set = await api("PUT", path, { versions, rollback: { errorRate: 0.5, minCalls: 4 } });
    expect(set.body.rollback).toEqual({ errorRate: 0.5, minCalls: 4 });
    for (let count = 0; count < 4; count += 1) await api("POST", `${tenant}/tools/flaky/calls`, {});
    await expect.poll(async () => (await api("POST", `${tenant}/tools/flaky/calls`, {})).body.output).toBe("good");
    const audit = await items("/audit");
    expect(audit.find(({ action }) => action === "release.rolled_back")).toMatchObject({
      actor: "server",
      details: { failedVersion: 2, faults: expect.any(Number) },
    });
  });

  test("a wrong input is no failure of the version", async () => {
    const schema =
      "export const inputSchema = { type: 'object', required: ['a'], properties: { a: { type: 'number' } } };";
    await deploy("strict", `${schema} export default () => 1`);
    await deploy("strict", `${schema} export default () => 2`);
    const path = `${tenant}/tools/strict/releases/live`;
    await api("PUT", path, { versions: [{ version: 2, weight: 100 }], rollback: { errorRate: 0, minCalls: 1 } });
    for (let count = 0; count < 3; count += 1)
      expect((await api("POST", `${tenant}/tools/strict/calls`, { input: {} })).status).toBe(422);
    const { body } = await api("POST", `${tenant}/tools/strict/calls`, { input: { a: 1 } });
    expect(body.output).toBe(2);
  });
});

function toRow(idempotencyKey: string | undefined, keyId: string): never {
  const now = Date.now();
  return {
    id: `call_${idempotencyKey}_${Math.random()}`,
    tenant_id: "acme",
    tool_name: "t",
    tool_version: null,
    alias: "live",
    mode: "async",
    state: "queued",
    effects: "none",
    key_id: keyId,
    session_id: null,
    idempotency_key: idempotencyKey,
    request_hash: null,
    timeout_ms: null,
    input: "{}",
    output: null,
    error: null,
    logs: null,
    usage: null,
    calls: null,
    timeline: null,
    created_at: now,
    started_at: null,
    ended_at: null,
    run_at: now,
    lease_owner: null,
    lease_until: null,
    fence: 0,
    attempts: 0,
    cancel_requested: 0,
  } as never;
}
